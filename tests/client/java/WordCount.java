import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/** Counts words with Kafka Streams and the streams rebalance protocol, exactly once, until it is killed or its input ends.
 *
 * Arguments: bootstrap servers, application id, the topic with a word a record, the topic for "word -> count", how many
 * threads, a folder. It prints each state that it enters. */
public class WordCount {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", arguments[1]);
        properties.put("group.protocol", "streams");
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("statestore.cache.max.bytes", "0");
        properties.put("commit.interval.ms", "200");
        properties.put("num.stream.threads", arguments[4]);
        properties.put("state.dir", arguments[5]);
        properties.put("main.consumer.auto.offset.reset", "earliest");
        properties.put("producer.transaction.timeout.ms", "6000");
        properties.put("default.key.serde", Serdes.StringSerde.class.getName());
        properties.put("default.value.serde", Serdes.StringSerde.class.getName());
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[2])
            .groupBy((key, word) -> word, Grouped.as("by-word"))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts")).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(properties), properties);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            System.out.flush();
        });
        CountDownLatch end = new CountDownLatch(1);
        Thread reader = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException error) {
                error.printStackTrace();
            }
            end.countDown();
        });
        reader.setDaemon(true);
        reader.start();
        streams.start();
        end.await();
        streams.close(Duration.ofSeconds(20));
    }
}
