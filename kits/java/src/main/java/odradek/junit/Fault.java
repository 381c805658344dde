package odradek.junit;

import java.util.List;
import java.util.Map;

/** A fault that is set, until the end of the test or of a try block. */
public final class Fault implements AutoCloseable {
  private final Odradek broker;
  private final String path;

  Fault(Odradek broker, String id) {
    this.broker = broker;
    this.path = "/faults/" + id;
  }

  /** How often it has struck. */
  public int hits() {
    return ((Number) broker.get(path).get("hits")).intValue();
  }

  /** The requests that it has struck, decoded. */
  public List<Map<String, Object>> requests() {
    return Odradek.list(broker.get(path), "requests");
  }

  /** Waits until it has struck so often. */
  public void await(int hits) {
    broker.post(path + "/wait", Map.of("n", hits, "timeout", broker.seconds()));
  }

  /** Removes it; harmless if it is gone. */
  @Override
  public void close() {
    try {
      broker.delete(path);
    } catch (ControlException error) {
      if (error.status() != 404) {
        throw error;
      }
    }
  }
}
