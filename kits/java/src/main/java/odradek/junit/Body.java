package odradek.junit;

import java.util.LinkedHashMap;
import java.util.Map;

/** The body of a request: the fields that were set, by the names of the control interface. */
public abstract class Body {
  private final Map<String, Object> fields = new LinkedHashMap<>();

  final void set(String name, Object value) {
    fields.put(name, value);
  }

  final Map<String, Object> fields() {
    return new LinkedHashMap<>(fields);
  }

  @Override
  public String toString() {
    return fields.toString();
  }
}
