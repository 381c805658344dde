// Writes Kafka's definitions of configurations as JSON. Java 17 or newer runs it as it is:
// java -cp 'kafka/libs/*' tools/recorders/KafkaDefinitions.java > definitions.json

import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.ConfigKey;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

public class KafkaDefinitions {
    static String quoted(String text) {
        return text == null ? "null" : "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    /** Rows of [name, type, default, validator, importance, internal], in order of definition. */
    static String rows(ConfigDef definitions) {
        List<String> rows = new ArrayList<>();
        for (ConfigKey key : definitions.configKeys().values()) {
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
            String validator = key.validator == null ? null : key.validator.toString();
            rows.add("[" + String.join(", ", quoted(key.name), quoted(key.type.name()), quoted(value), quoted(validator),
                quoted(key.importance.toString().toLowerCase()), String.valueOf(key.internalConfig)) + "]");
        }
        return "[\n" + String.join(",\n", rows) + "\n]";
    }

    public static void main(String[] args) {
        System.out.println("{\"topic\": " + rows(LogConfig.configDefCopy()) + ",\n\"broker\": "
            + rows(AbstractKafkaConfig.CONFIG_DEF) + ",\n\"group\": " + rows(GroupConfig.CONFIG_DEF) + "}");
    }
}
