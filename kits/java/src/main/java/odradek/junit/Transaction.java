package odradek.junit;

import java.util.Map;

/** A transactional id. */
public final class Transaction {
  private final Odradek broker;
  private final String id;

  Transaction(Odradek broker, String id) {
    this.broker = broker;
    this.id = id;
  }

  /** Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, or Dead if there is none. */
  public String state() {
    return (String) broker.get(path("")).get("state");
  }

  public void await(String state) {
    broker.post(path("/wait"), Map.of("state", state, "timeout", broker.seconds()));
  }

  /** Fences the producer and aborts its open transaction. */
  public void abort() {
    broker.post(path("/abort"), Map.of());
  }

  /** Makes the producer a zombie. */
  public void fence() {
    broker.post(path("/fence"), Map.of());
  }

  private String path(String end) {
    return "/transactions/" + Odradek.segment(id) + end;
  }
}
