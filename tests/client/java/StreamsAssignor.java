import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
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
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * What Apache Kafka's StickyTaskAssignor makes of streams groups: one JSON document a line in (tests/unit/coordinator/
 * group/streams/assignor_documents.py says what is in it), one answer a line out.
 */
public class StreamsAssignor {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
    }
  }

  private static JsonNode answer(JsonNode document) {
    Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
    for (JsonNode member : document.get("members")) {
      members.put(
          member.get("id").asText(),
          new MemberMetadataAndStateImpl(
              Optional.empty(),
              Optional.empty(),
              member.get("process").asText(),
              tags(member.get("tags")),
              tasks(member.get("active")),
              tasks(member.get("standby")),
              tasks(member.get("warmup")),
              offsets(member.get("offsets")),
              Map.of()));
    }
    List<String> tags = new ArrayList<>();
    document.get("tags").forEach(tag -> tags.add(tag.asText()));
    var configs = new AssignmentConfigsImpl(document.get("standbys").asInt(), tags);
    var found =
        new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), new Topology(document.get("subtopologies")));
    ObjectNode answer = JSON.createObjectNode();
    found
        .members()
        .forEach(
            (id, assigned) -> {
              answer.putObject(id).set("active", listed(assigned.activeTasks()));
              ((ObjectNode) answer.get(id)).set("standby", listed(assigned.standbyTasks()));
            });
    return answer;
  }

  private static Map<String, String> tags(JsonNode object) {
    Map<String, String> tags = new HashMap<>();
    object.fields().forEachRemaining(field -> tags.put(field.getKey(), field.getValue().asText()));
    return tags;
  }

  private static Map<String, Set<Integer>> tasks(JsonNode object) {
    Map<String, Set<Integer>> tasks = new HashMap<>();
    for (var fields = object.fields(); fields.hasNext(); ) {
      var field = fields.next();
      Set<Integer> partitions = new HashSet<>();
      field.getValue().forEach(partition -> partitions.add(partition.asInt()));
      tasks.put(field.getKey(), partitions);
    }
    return tasks;
  }

  private static Map<String, Map<Integer, Long>> offsets(JsonNode triples) {
    Map<String, Map<Integer, Long>> offsets = new HashMap<>();
    for (JsonNode triple : triples) {
      offsets
          .computeIfAbsent(triple.get(0).asText(), name -> new HashMap<>())
          .put(triple.get(1).asInt(), triple.get(2).asLong());
    }
    return offsets;
  }

  private static ObjectNode listed(Map<String, Set<Integer>> tasks) {
    ObjectNode listed = JSON.createObjectNode();
    new TreeMap<>(tasks).forEach((name, partitions) -> listed.set(name, JSON.valueToTree(new TreeSet<>(partitions))));
    return listed;
  }

  /** Number of tasks by subtopology, and whether they have state. */
  private record Topology(JsonNode byName) implements TopologyDescriber {
    @Override
    public List<String> subtopologies() {
      List<String> names = new ArrayList<>();
      byName.fieldNames().forEachRemaining(names::add);
      names.sort(null);
      return names;
    }

    @Override
    public int maxNumInputPartitions(String name) {
      return byName.get(name).get(0).asInt();
    }

    @Override
    public boolean isStateful(String name) {
      return byName.get(name).get(1).asBoolean();
    }
  }
}
