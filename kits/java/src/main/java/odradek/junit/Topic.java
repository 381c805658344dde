package odradek.junit;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A topic of the broker. */
public final class Topic {
  private final Odradek broker;
  private final String name;

  Topic(Odradek broker, String name) {
    this.broker = broker;
    this.name = name;
  }

  public String name() {
    return name;
  }

  @Override
  public String toString() {
    return name;
  }

  /** Writes a record: text, bytes, null for a tombstone; all else becomes JSON. The key may be null. */
  public TopicRecord produce(String key, Object value) {
    var record = new LinkedHashMap<String, Object>();
    record.put("key", key);
    if (value instanceof byte[] bytes) {
      record.put("value_base64", Base64.getEncoder().encodeToString(bytes));
    } else if (value != null) {
      record.put("value", value instanceof String ? value : json(value));
    }
    return records(broker.post(path("/records"), Map.of("records", List.of(record)))).get(0);
  }

  /** Writes a record whose value is encoded by the schema with this id. */
  public TopicRecord produce(String key, Object value, int schema) {
    var record = new LinkedHashMap<String, Object>();
    record.put("key", key);
    record.put("json", value);
    record.put("schema", Map.of("id", schema));
    return records(broker.post(path("/records"), Map.of("records", List.of(record)))).get(0);
  }

  private static String json(Object value) {
    try {
      return JSON.std.asString(value);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Waits for a record like this; otherwise the error shows the nearest one, field by field. */
  public TopicRecord expect(Expected expected) {
    return await(expected).get(0);
  }

  /** Waits for a record whose JSON has at least this. */
  public TopicRecord expect(Map<String, ?> json) {
    return expect(new Expected().json(json));
  }

  /** Waits for a record with this value. */
  public TopicRecord expect(String value) {
    return expect(new Expected().value(value));
  }

  /** Waits for {@code count} records like this. */
  public List<TopicRecord> await(Expected expected) {
    return records(broker.post(path("/wait"), expected, true));
  }

  /** Those that are there now, without those of open and aborted transactions. */
  public List<TopicRecord> records() {
    return records(broker.get(path("/records")));
  }

  private static List<TopicRecord> records(Map<String, Object> answer) {
    return Odradek.list(answer, "records").stream().map(TopicRecord::of).toList();
  }

  /** Deletes all records; new ones get the offsets that follow. */
  public void truncate() {
    broker.post(path("/truncate"), Map.of());
  }

  public void delete() {
    broker.delete(path(""));
  }

  private String path(String end) {
    return "/topics/" + Odradek.segment(name) + end;
  }
}
