// Writes, as JSON, which values of each broker setting let Apache Kafka start: for numbers the least and the greatest
// while all else is as by default, for others which of a few texts. Java 17 or newer runs it as it is:
// java -cp 'kafka/libs/*' tools/recorders/KafkaBounds.java > started.json

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.function.Predicate;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.server.config.AbstractKafkaConfig;

public class KafkaBounds {
    static final List<String> TEXTS =
        List.of("", " ", "x", "x,x", "x,,y", ",", "*", "true", "TRUE", "yes", "1", "-1", "none", "DEFAULT");

    static Properties base() {
        Properties base = new Properties();
        base.put("process.roles", "broker,controller");
        base.put("node.id", "1");
        base.put("controller.quorum.voters", "1@127.0.0.1:9093");
        base.put("listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093");
        base.put("controller.listener.names", "CONTROLLER");
        base.put("listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT");
        return base;
    }

    static boolean starts(String name, String value) {
        Properties properties = base();
        properties.put(name, value);
        try {
            new KafkaConfig(properties, false);
            return true;
        } catch (RuntimeException refused) {
            return false;
        }
    }

    /** The last number that is taken on the way from `taken` to `end`; null if `taken` is not. */
    static BigInteger last(BigInteger taken, BigInteger end, Predicate<BigInteger> takes) {
        if (takes.test(end)) return end;
        while (end.subtract(taken).abs().compareTo(BigInteger.ONE) > 0) {
            BigInteger middle = taken.add(end).shiftRight(1);
            if (takes.test(middle)) taken = middle; else end = middle;
        }
        return taken;
    }

    static String row(ConfigKey key) {
        int bits = switch (key.type) { case SHORT -> 15; case INT -> 31; case LONG -> 63; default -> 0; };
        if (bits == 0) {
            List<String> taken = new ArrayList<>();
            for (String text : TEXTS) if (starts(key.name, text)) taken.add("\"" + text + "\"");
            return "[\"" + key.name + "\", [" + String.join(", ", taken) + "]]";
        }
        Object given = base().get(key.name);
        if (given == null && key.hasDefault()) given = key.defaultValue;
        BigInteger start = null;
        for (Object each : new Object[] {given, 1, 9, 1000, 16_000_000})
            if (start == null && each != null && starts(key.name, each.toString())) start = new BigInteger(each.toString());
        if (start == null) return "[\"" + key.name + "\", null, null]";
        BigInteger end = BigInteger.ONE.shiftLeft(bits);
        Predicate<BigInteger> takes = value -> starts(key.name, value.toString());
        return "[\"" + key.name + "\", " + last(start, end.negate(), takes) + ", " + last(start, end.subtract(BigInteger.ONE), takes) + "]";
    }

    public static void main(String[] args) {
        List<String> rows = new ArrayList<>();
        for (ConfigKey key : AbstractKafkaConfig.CONFIG_DEF.configKeys().values()) rows.add(row(key));
        System.out.println("[\n" + String.join(",\n", rows) + "\n]");
    }
}
