import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/** Makes the calls of the pages of kafbat UI and AKHQ, and prints of each "name: what it is about", or its error.
 *
 * Arguments: bootstrap servers. What is printed has no ids, addresses or times. */
public class AdminCalls {
    private static final String TOPIC = "pages", GROUP = "readers-of-pages";

    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", GROUP);
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        properties.put("key.deserializer", bytes);
        properties.put("value.deserializer", bytes);
        try (Admin admin = Admin.create(properties); KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            List<String> topics = List.of(TOPIC);
            TopicPartition partition = new TopicPartition(TOPIC, 0);
            ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
            DescribeClusterOptions rights = new DescribeClusterOptions().includeAuthorizedOperations(true);
            int broker = ask(() -> admin.describeCluster().controller().get().id());
            ConfigResource node = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(broker));
            say("create", () -> admin.createTopics(List.of(new NewTopic(TOPIC, 2, (short) 1))).numPartitions(TOPIC).get());
            say("cluster", () -> admin.describeCluster(rights).nodes().get().size());
            say("cluster's rights", () -> admin.describeCluster(rights).authorizedOperations().get());
            say("features", () -> admin.describeFeatures().featureMetadata().get().finalizedFeatures().keySet().stream().sorted().toList());
            say("quorum", () -> admin.describeMetadataQuorum().quorumInfo().get().voters().size());
            say("broker's configs", () -> !admin.describeConfigs(List.of(node), new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).values().get(node).get().entries().isEmpty());
            say("log dirs", () -> admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker).size());
            say("topics", () -> admin.listTopics(new ListTopicsOptions().listInternal(true)).names().get().contains(TOPIC));
            say("topic", () -> admin.describeTopics(topics, new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames().get().get(TOPIC).partitions().size());
            say("alter", () -> admin.incrementalAlterConfigs(Map.of(topic, List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "1000"), AlterConfigOp.OpType.SET)))).all().get());
            say("topic's config", () -> admin.describeConfigs(List.of(topic)).all().get().get(topic).get("retention.ms").value());
            say("more partitions", () -> admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(3))).all().get());
            for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(), OffsetSpec.forTimestamp(0))) {
                say(spec.getClass().getSimpleName(), () -> admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset());
            }
            say("commit", () -> admin.alterConsumerGroupOffsets(GROUP, Map.of(partition, new OffsetAndMetadata(0))).all().get());
            say("groups", () -> admin.listGroups().all().get().stream().map(GroupListing::groupId).toList());
            say("consumer groups", () -> admin.listConsumerGroups().all().get().size());
            say("group", () -> admin.describeConsumerGroups(List.of(GROUP)).all().get().get(GROUP).groupState());
            say("group's offsets", () -> admin.listConsumerGroupOffsets(Map.of(GROUP, new ListConsumerGroupOffsetsSpec())).all().get().get(GROUP).size());
            say("delete offsets", () -> admin.deleteConsumerGroupOffsets(GROUP, java.util.Set.of(partition)).all().get());
            say("delete group", () -> admin.deleteConsumerGroups(List.of(GROUP)).all().get());
            say("acls", () -> admin.describeAcls(AclBindingFilter.ANY).values().get().size());
            say("quotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().size());
            say("users", () -> admin.describeUserScramCredentials().all().get().size());
            say("reassignments", () -> admin.listPartitionReassignments().reassignments().get().size());
            say("producers", () -> admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers().size());
            say("transactions", () -> admin.listTransactions().all().get().size());
            say("client metrics", () -> admin.listConfigResources().all().get().stream().map(one -> one.type().name()).distinct().sorted().toList());
            say("messages", () -> {
                consumer.assign(List.of(partition));
                consumer.seekToBeginning(List.of(partition));
                return consumer.poll(Duration.ofMillis(500)).count() + " of " + consumer.endOffsets(List.of(partition)).get(partition);
            });
            say("empty", () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(-1))).lowWatermarks().get(partition).get().lowWatermark());
            say("delete", () -> admin.deleteTopics(topics).all().get());
            say("deleted", () -> admin.describeTopics(topics).allTopicNames().get());
        }
    }

    private static void say(String name, Callable<?> call) {
        try {
            System.out.println(name + ": " + call.call());
        } catch (ExecutionException error) {
            System.out.println(name + ": " + error.getCause().getClass().getSimpleName());
        } catch (Exception error) {
            System.out.println(name + ": " + error.getClass().getSimpleName());
        }
    }

    private static <T> T ask(Callable<T> call) {
        try {
            return call.call();
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }
}
