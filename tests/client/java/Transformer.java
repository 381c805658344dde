import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** transformer.py with Apache Kafka's Java client: Transformer BOOTSTRAP SOURCE SINK GROUP NUMBER OF. */
public class Transformer {
  public static void main(String[] args) {
    try {
      work(args);
    } catch (Throwable error) {
      error.printStackTrace();
    }
    Runtime.getRuntime().halt(1);
  }

  private static void work(String[] args) {
    Map<String, Object> reads = new HashMap<>();
    reads.put("bootstrap.servers", args[0]);
    reads.put("group.id", args[3]);
    reads.put("enable.auto.commit", false);
    reads.put("auto.offset.reset", "earliest");
    reads.put("isolation.level", "read_committed");
    reads.put("session.timeout.ms", 3_000);
    reads.put("heartbeat.interval.ms", 500);
    reads.put("max.poll.records", 200);
    Map<String, Object> writes = new HashMap<>();
    writes.put("bootstrap.servers", args[0]);
    writes.put("transactional.id", args[3] + "-" + args[4]);
    writes.put("transaction.timeout.ms", 6_000);
    writes.put("max.block.ms", 20_000);
    var consumer = new KafkaConsumer<>(reads, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    var producer = new KafkaProducer<>(writes, new ByteArraySerializer(), new ByteArraySerializer());
    producer.initTransactions();
    consumer.subscribe(List.of(args[1]));
    while (true) {
      var records = consumer.poll(Duration.ofMillis(100));
      if (records.isEmpty()) continue;
      producer.beginTransaction();
      Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
      for (var one : records) {
        producer.send(new ProducerRecord<>(args[2], one.partition(), one.key(), seen(one.value())));
        offsets.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
      }
      producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
      producer.commitTransaction();
    }
  }

  private static byte[] seen(byte[] value) {
    var all = new byte[value.length + 5];
    System.arraycopy("seen ".getBytes(), 0, all, 0, 5);
    System.arraycopy(value, 0, all, 5, value.length);
    return all;
  }
}
