// Writes kafka_rates.json: what Kafka's own classes make of random uses of a quota. Java 17 or newer runs it as it is:
// java -cp 'kafka/libs/*' tools/recorders/KafkaRates.java > tests/unit/broker/quotas/kafka_rates.json

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.server.quota.QuotaUtils;

public class KafkaRates {
    static final long START_MS = 1_000_000;

    /** Steps of [ms since the start, value, taken back, throttle ms]. */
    static String steps(String kind, int num, int seconds, double quota, long seed, int count) {
        boolean isRate = kind.equals("rate");
        Random random = new Random(seed);
        Metrics metrics = new Metrics();
        Sensor sensor = metrics.sensor("used");
        MetricConfig config = new MetricConfig().timeWindow(seconds, TimeUnit.SECONDS).samples(num);
        config.quota(new Quota(quota, true));
        sensor.add(metrics.metricName("used", "quotas"), isRate ? new Rate() : new TokenBucket(), config);
        List<String> steps = new ArrayList<>();
        long nowMs = START_MS;
        for (int i = 0; i < count; i++) {
            int pace = random.nextInt(10);
            int longest = pace < 4 ? 300 : pace < 7 ? 1500 : pace < 9 ? 4000 : seconds * 1000 * num * 3;
            nowMs += random.nextInt(longest);
            int value = random.nextInt(isRate ? (int) (quota * 3) : 12);
            boolean takenBack = isRate && random.nextInt(6) == 0;
            long throttleMs = 0;
            try {
                if (isRate) {
                    sensor.record(value, nowMs, true);
                } else {
                    sensor.checkQuotas(nowMs);
                    sensor.record(value, nowMs, false);
                }
            } catch (QuotaViolationException e) {
                throttleMs = isRate ? QuotaUtils.throttleTime(e, nowMs) : Math.round(-e.value() / e.bound() * 1000);
            }
            if (takenBack) sensor.record(-value, nowMs, false);
            steps.add("[%d,%d,%b,%d]".formatted(nowMs - START_MS, value, takenBack, throttleMs));
        }
        return "{\"kind\":\"%s\",\"num\":%d,\"size_ms\":%d,\"quota\":%s,\"steps\":[%s]}"
            .formatted(kind, num, seconds * 1000, quota, String.join(",", steps));
    }

    public static void main(String[] args) {
        System.out.println("[" + String.join(",\n",
            steps("rate", 11, 1, 1000, 1, 150),
            steps("rate", 3, 2, 50.5, 2, 120),
            steps("rate", 1, 1, 10, 3, 60),
            steps("tokens", 11, 1, 2.5, 4, 100),
            steps("tokens", 2, 3, 0.7, 5, 60)) + "]");
    }
}
