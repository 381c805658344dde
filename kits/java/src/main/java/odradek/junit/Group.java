package odradek.junit;

import java.util.List;
import java.util.Map;
import java.util.OptionalLong;

/** A group of any kind: classic, consumer, share, streams. */
public final class Group {
  private final Odradek broker;
  private final String id;

  Group(Odradek broker, String id) {
    this.broker = broker;
    this.id = id;
  }

  /** All that the broker says of it. */
  public Map<String, Object> describe() {
    return broker.get(path(""));
  }

  /** Empty, PreparingRebalance, CompletingRebalance, Stable, Assigning, Reconciling, NotReady, or Dead if there is none. */
  public String state() {
    return (String) describe().get("state");
  }

  /** Waits until all of it is so at the same time. */
  public void await(GroupWait wanted) {
    broker.post(path("/wait"), wanted, true);
  }

  /** How many records it has not done; empty if that is not known. */
  public OptionalLong lag() {
    var total = (Number) broker.get(path("/lag")).get("total");
    return total == null ? OptionalLong.empty() : OptionalLong.of(total.longValue());
  }

  public List<Map<String, Object>> committed() {
    return Odradek.list(broker.get(path("/committed")), "partitions");
  }

  /** Begins a rebalance now. */
  public void rebalance() {
    broker.post(path("/rebalance"), Map.of());
  }

  /** Ends the session of a member, by member id, client id or instance id. */
  public void expire(String member) {
    broker.post(path("/expire"), Map.of("member", member));
  }

  /** Ends all sessions. */
  public void expire() {
    broker.post(path("/expire"), Map.of());
  }

  /** Commits other offsets; the group has no members. */
  public void resetOffsets(Offsets to) {
    broker.post(path("/reset_offsets"), to, false);
  }

  /** Sets configurations of the group, which need not exist: share.auto.offset.reset, say. */
  public Group configure(Map<String, ?> configs) {
    broker.post(path("/configs"), Map.of("configs", configs));
    return this;
  }

  /** What a share group has in flight, by partition. */
  public List<Map<String, Object>> deliveries() {
    return Odradek.list(broker.get(path("/deliveries")), "partitions");
  }

  /** Releases acquired records of a share group, and returns how many. */
  public int release(Acquired which) {
    return end("/release", which);
  }

  /** Ends acquisition locks of a share group, and returns of how many records. */
  public int expireLocks(Acquired which) {
    return end("/expire_locks", which);
  }

  private int end(String path, Acquired which) {
    return ((Number) broker.post(path(path), which, false).get("released")).intValue();
  }

  private String path(String end) {
    return "/groups/" + Odradek.segment(id) + end;
  }
}
