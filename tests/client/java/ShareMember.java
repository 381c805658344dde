import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;

/** Consumes records of a topic as a member of a share group, and prints "partition offset value deliveries" of each.
 *
 * Arguments: bootstrap servers, topic, group, how many records, how to acknowledge each: IMPLICIT, ACCEPT, RELEASE or
 * REJECT. Every poll's acknowledgements are committed before the next, and then "committed" is printed. */
public class ShareMember {
    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[2]);
        boolean implicit = arguments[4].equals("IMPLICIT");
        properties.put("share.acknowledgement.mode", implicit ? "implicit" : "explicit");
        String deserializer = "org.apache.kafka.common.serialization.StringDeserializer";
        properties.put("key.deserializer", deserializer);
        properties.put("value.deserializer", deserializer);
        int left = Integer.parseInt(arguments[3]);
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(properties)) {
            consumer.subscribe(List.of(arguments[1]));
            while (left > 0) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    short deliveries = record.deliveryCount().orElse((short) 0);
                    System.out.println(record.partition() + " " + record.offset() + " " + record.value() + " " + deliveries);
                    left--;
                    if (!implicit) {
                        consumer.acknowledge(record, AcknowledgeType.valueOf(arguments[4]));
                    }
                }
                if (consumer.commitSync().values().stream().allMatch(error -> error.isEmpty())) {
                    System.out.println("committed");
                }
                System.out.flush();
            }
        }
    }
}
