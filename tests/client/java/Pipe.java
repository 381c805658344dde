import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Apache Kafka's Java client as a filter that stays up for a whole test session. A command is a UTF string: "produce
 * BOOTSTRAP TOPIC COMPRESSION", followed by values each with its length before it, ended by -1, answered by "ok"; or
 * "consume BOOTSTRAP TOPIC COUNT", answered by that many values in the same form, or by -1 after 30 s without one.
 */
public class Pipe {
  private static final int END = -1;

  public static void main(String[] args) throws Exception {
    var in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
    var out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
    while (true) {
      String[] words;
      try {
        words = in.readUTF().split(" ");
      } catch (EOFException end) {
        return;
      }
      switch (words[0]) {
        case "produce" -> out.writeUTF(produce(in, words[1], words[2], words[3]));
        case "consume" -> consume(out, words[1], words[2], Integer.parseInt(words[3]));
        default -> throw new IllegalArgumentException(words[0]);
      }
      out.flush();
    }
  }

  private static String produce(DataInputStream in, String bootstrap, String topic, String compression)
      throws IOException {
    Map<String, Object> conf =
        Map.of("bootstrap.servers", bootstrap, "compression.type", compression, "acks", "all", "linger.ms", 5);
    var failure = new AtomicReference<Exception>();
    try (var producer = new KafkaProducer<>(conf, new ByteArraySerializer(), new ByteArraySerializer())) {
      for (int size = in.readInt(); size != END; size = in.readInt()) {
        producer.send(
            new ProducerRecord<>(topic, 0, null, in.readNBytes(size)),
            (metadata, error) -> {
              if (error != null) failure.compareAndSet(null, error);
            });
      }
    }
    return failure.get() == null ? "ok" : failure.get().toString();
  }

  private static void consume(DataOutputStream out, String bootstrap, String topic, int count) throws IOException {
    Map<String, Object> conf = Map.of("bootstrap.servers", bootstrap);
    try (var consumer = new KafkaConsumer<>(conf, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      var partition = new TopicPartition(topic, 0);
      consumer.assign(List.of(partition));
      consumer.seekToBeginning(List.of(partition));
      int left = count;
      while (left > 0) {
        var polled = consumer.poll(Duration.ofSeconds(30));
        if (polled.isEmpty()) {
          out.writeInt(END);
          return;
        }
        for (ConsumerRecord<byte[], byte[]> record : polled) {
          if (left-- <= 0) break;
          out.writeInt(record.value().length);
          out.write(record.value());
        }
      }
    }
  }
}
