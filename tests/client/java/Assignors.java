import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignorException;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;

/**
 * What Apache Kafka's own assignors make of groups: one JSON document a line in (tests/unit/coordinator/group/consumer/
 * assignor_documents.py says what is in it), one answer a line out.
 */
public class Assignors {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, PartitionAssignor> ASSIGNORS =
      Map.of("uniform", new UniformAssignor(), "range", new RangeAssignor(), "simple", new SimpleAssignor());

  public static void main(String[] args) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
    }
  }

  private static JsonNode answer(JsonNode document) {
    var topics = new Topics(document.get("topics"));
    Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
    Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
    own(owners, "departed", document.get("departed"));
    for (JsonNode member : document.get("members")) {
      String id = member.get("id").asText();
      members.put(
          id,
          new MemberSubscriptionAndAssignmentImpl(
              Optional.ofNullable(member.get("rack").textValue()),
              Optional.ofNullable(member.get("instance").textValue()),
              new TopicIds(new HashSet<>(texts(member.get("topics"))), topics),
              recorded(member.get("assigned"))));
      own(owners, id, member.get("assigned"));
    }
    var kind = document.get("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
    ObjectNode answer = JSON.createObjectNode();
    try {
      var found =
          ASSIGNORS.get(document.get("assignor").asText()).assign(new GroupSpecImpl(members, kind, owners), topics);
      for (String id : members.keySet()) {
        var assignment = found.members().get(id);
        answer.set(id, assignment == null ? JSON.createArrayNode() : listed(assignment.partitions()));
      }
    } catch (PartitionAssignorException e) {
      answer.put("error", e.getMessage());
    }
    return answer;
  }

  private static void own(Map<Uuid, Map<Integer, String>> owners, String member, JsonNode assigned) {
    for (JsonNode entry : assigned) {
      var partitions = owners.computeIfAbsent(Uuid.fromString(entry.get(0).asText()), id -> new HashMap<>());
      for (int partition : numbers(entry.get(1))) partitions.put(partition, member);
    }
  }

  /** The target assignment as the coordinator has it, which is always read from its record. */
  private static Assignment recorded(JsonNode assigned) {
    var value = new ConsumerGroupTargetAssignmentMemberValue();
    for (JsonNode entry : assigned) {
      value
          .topicPartitions()
          .add(
              new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                  .setTopicId(Uuid.fromString(entry.get(0).asText()))
                  .setPartitions(numbers(entry.get(1))));
    }
    return Assignment.fromRecord(value);
  }

  /** Topics in the map's own order, which is that of the next record. */
  private static ArrayNode listed(Map<Uuid, Set<Integer>> partitions) {
    ArrayNode list = JSON.createArrayNode();
    partitions.forEach(
        (id, numbers) -> list.addArray().add(id.toString()).add(JSON.valueToTree(new TreeSet<>(numbers))));
    return list;
  }

  private static List<String> texts(JsonNode array) {
    List<String> texts = new ArrayList<>();
    array.forEach(text -> texts.add(text.asText()));
    return texts;
  }

  private static List<Integer> numbers(JsonNode array) {
    List<Integer> numbers = new ArrayList<>();
    array.forEach(number -> numbers.add(number.asInt()));
    return numbers;
  }

  /** Topics by name: id and number of partitions. A topic of -1 partitions has a name and an id, but no metadata. */
  private record Topics(JsonNode byName) implements TopicIds.TopicResolver, SubscribedTopicDescriber {
    @Override
    public CoordinatorMetadataImage image() {
      return CoordinatorMetadataImage.EMPTY;
    }

    @Override
    public String name(Uuid id) {
      for (var fields = byName.fields(); fields.hasNext(); ) {
        var field = fields.next();
        if (field.getValue().get(0).asText().equals(id.toString())) return field.getKey();
      }
      return null;
    }

    @Override
    public Uuid id(String name) {
      return byName.has(name) ? Uuid.fromString(byName.get(name).get(0).asText()) : null;
    }

    @Override
    public void clear() {}

    @Override
    public int numPartitions(Uuid id) {
      String name = name(id);
      return name == null ? -1 : byName.get(name).get(1).asInt();
    }

    @Override
    public Set<String> racksForPartition(Uuid id, int partition) {
      return Set.of("r" + partition % 3);
    }
  }
}
