import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * group_member.py with Apache Kafka's Java client: GroupMember STRATEGY BOOTSTRAP GROUP TOPIC [INSTANCE], where STRATEGY
 * is a class of org.apache.kafka.clients.consumer, or "consumer" for the protocol of KIP-848.
 */
public class GroupMember {
  private static volatile boolean stop;
  private static boolean uncommitted;

  public static void main(String[] args) throws Exception {
    Map<String, Object> conf = new HashMap<>();
    conf.put("bootstrap.servers", args[1]);
    conf.put("group.id", args[2]);
    conf.put("enable.auto.commit", false);
    conf.put("auto.offset.reset", "earliest");
    if (args[0].equals("consumer")) {
      conf.put("group.protocol", "consumer");
    } else {
      conf.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + args[0]);
      conf.put("session.timeout.ms", args.length > 4 ? 45_000 : 5_000);
      conf.put("heartbeat.interval.ms", 500);
    }
    conf.put("max.poll.interval.ms", args.length > 4 ? 45_000 : 15_000);
    conf.put("metadata.max.age.ms", 5_000);
    if (args.length > 4) conf.put("group.instance.id", args[4]);
    var consumer = new KafkaConsumer<>(conf, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    var main = Thread.currentThread();
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  stop = true;
                  consumer.wakeup();
                  try {
                    main.join(10_000);
                  } catch (InterruptedException late) {
                    Thread.currentThread().interrupt();
                  }
                }));
    consumer.subscribe(List.of(args[3]), new Teller(consumer));
    try {
      while (!stop) poll(consumer);
    } catch (WakeupException wanted) {
      // The shutdown hook asked for it.
    } finally {
      consumer.close();
      System.out.println("{\"left\": true}");
      System.out.flush();
    }
  }

  private static void poll(KafkaConsumer<byte[], byte[]> consumer) {
    var records = consumer.poll(Duration.ofMillis(200));
    if (!records.isEmpty()) tell(records);
    if (records.isEmpty() && !uncommitted) return;
    try {
      consumer.commitSync();
      uncommitted = false;
    } catch (WakeupException wanted) {
      throw wanted;
    } catch (KafkaException error) {
      System.out.println("{\"not_committed\": true}");
      uncommitted = true;
    }
  }

  private static void tell(ConsumerRecords<byte[], byte[]> records) {
    var read =
        records.partitions().stream()
            .map(
                partition ->
                    records.records(partition).stream()
                        .map(one -> Long.toString(one.offset()))
                        .collect(Collectors.joining(", ", "\"" + partition.partition() + "\": [", "]")))
            .collect(Collectors.joining(", "));
    System.out.println("{\"read\": {" + read + "}}");
    System.out.flush();
  }

  private record Teller(KafkaConsumer<byte[], byte[]> consumer, TreeSet<Integer> owned)
      implements ConsumerRebalanceListener {
    Teller(KafkaConsumer<byte[], byte[]> consumer) {
      this(consumer, new TreeSet<>());
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
      partitions.forEach(one -> owned.add(one.partition()));
      tell();
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
      partitions.forEach(one -> owned.remove(one.partition()));
      tell();
    }

    private void tell() {
      System.out.println("{\"owned\": " + owned + ", \"member\": \"" + consumer.groupMetadata().memberId() + "\"}");
      System.out.flush();
    }
  }
}
