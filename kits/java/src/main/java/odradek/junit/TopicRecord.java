package odradek.junit;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;

/** A record; a null value is a tombstone. What its schema decodes is null without one. */
public record TopicRecord(
    String topic,
    int partition,
    long offset,
    Instant timestamp,
    byte[] key,
    byte[] value,
    Map<String, byte[]> headers,
    Object decoded) {

  static TopicRecord of(Map<String, Object> answer) {
    var headers = new LinkedHashMap<String, byte[]>();
    for (Map<String, Object> header : Odradek.list(answer, "headers")) {
      headers.put((String) header.get("key"), content(header, "value"));
    }
    return new TopicRecord(
        (String) answer.get("topic"),
        ((Number) answer.get("partition")).intValue(),
        ((Number) answer.get("offset")).longValue(),
        Instant.ofEpochMilli(((Number) answer.get("timestamp")).longValue()),
        content(answer, "key"),
        content(answer, "value"),
        headers,
        answer.get("json"));
  }

  private static byte[] content(Map<String, Object> fields, String name) {
    if (fields.get(name) instanceof String text) {
      return text.getBytes(StandardCharsets.UTF_8);
    }
    return fields.get(name + "_base64") instanceof String text ? Base64.getDecoder().decode(text) : null;
  }

  public String keyText() {
    return text(key);
  }

  public String text() {
    return text(value);
  }

  public String header(String name) {
    return text(headers.get(name));
  }

  private static String text(byte[] bytes) {
    return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
  }

  /** The value that is JSON, or that its schema decodes. */
  @SuppressWarnings("unchecked")
  public Map<String, Object> json() {
    if (decoded instanceof Map) {
      return (Map<String, Object>) decoded;
    }
    try {
      return JSON.std.mapFrom(text());
    } catch (IOException error) {
      throw new AssertionError("offset " + offset + " of " + topic + "-" + partition + " is no JSON: " + text(), error);
    }
  }

  @Override
  public String toString() {
    return topic + "-" + partition + " at " + offset + ": key " + keyText() + ", value " + text();
  }
}
