import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.springframework.kafka.core.DefaultShareConsumerFactory;
import org.springframework.kafka.listener.AcknowledgingShareConsumerAwareMessageListener;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.ShareKafkaMessageListenerContainer;
import org.springframework.kafka.support.ShareAcknowledgment;

/** A share container of Spring Kafka, which prints "partition offset value deliveries" of each record.
 *
 * Arguments: bootstrap servers, group, topic, how many records, how to acknowledge each: accept, release or reject. It
 * ends when the broker has confirmed so many acknowledgements: a container that stops earlier does not send them. */
public class SpringSharer {
    public static void main(String[] arguments) throws InterruptedException {
        int count = Integer.parseInt(arguments[3]);
        AtomicInteger shown = new AtomicInteger();
        CountDownLatch unconfirmed = new CountDownLatch(count);
        Map<String, Object> configs = Map.of(
            "bootstrap.servers", arguments[0],
            "key.deserializer", StringDeserializer.class,
            "value.deserializer", StringDeserializer.class,
            "max.poll.records", 1);
        ContainerProperties properties = new ContainerProperties(arguments[2]);
        properties.setGroupId(arguments[1]);
        properties.setShareAckMode(ContainerProperties.ShareAckMode.MANUAL);
        properties.setMessageListener(new AcknowledgingShareConsumerAwareMessageListener<String, String>() {
            @Override
            public void onShareRecord(
                    ConsumerRecord<String, String> record, ShareAcknowledgment acknowledgment, ShareConsumer<?, ?> consumer) {
                if (shown.getAndIncrement() >= count) {
                    acknowledgment.release();
                    return;
                }
                short deliveries = record.deliveryCount().orElse((short) 0);
                System.out.println(record.partition() + " " + record.offset() + " " + record.value() + " " + deliveries);
                switch (arguments[4]) {
                    case "accept" -> acknowledgment.acknowledge();
                    case "release" -> acknowledgment.release();
                    default -> acknowledgment.reject();
                }
            }
        });
        properties.setAcknowledgementCommitCallback((confirmed, error) -> {
            if (error == null) {
                confirmed.values().forEach(offsets -> offsets.forEach(offset -> unconfirmed.countDown()));
            }
        });
        var container = new ShareKafkaMessageListenerContainer<>(new DefaultShareConsumerFactory<String, String>(configs), properties);
        container.start();
        boolean done = unconfirmed.await(60, TimeUnit.SECONDS);
        container.stop();
        System.exit(done ? 0 : 1);
    }
}
