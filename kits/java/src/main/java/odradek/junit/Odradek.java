package odradek.junit;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A Kafka broker in a test's hands. {@link OdradekTest} gives one to a test class; {@link #start} and {@link #close} are
 * the same by hand.
 *
 * <p>It is found in this order: BROKER_CONTROL=http://HOST:PORT (and BROKER_TOKEN), one that runs already; BROKER_IMAGE, an
 * image for docker (or what CONTAINER_COMMAND names); ODRADEK, a command; {@code odradek} on the path.
 */
public final class Odradek implements AutoCloseable {
  private final Node node;
  private Duration timeout = Duration.ofSeconds(5);

  private Odradek(Node node) {
    this.node = node;
  }

  /** Starts a broker with Kafka's settings, by their names in server.properties, and a profile: test, dev or kafka. */
  public static Odradek start(Map<String, String> settings, String profile) {
    var node = new Node(settings, profile, Duration.ofSeconds(60));
    try {
      node.start();
    } catch (RuntimeException error) {
      node.close();
      throw error;
    }
    return new Odradek(node);
  }

  public static Odradek start() {
    return start(Map.of(), "test");
  }

  /** How long waits last that have no time of their own: 5 s at first, and again for each test. */
  public Odradek timeout(Duration timeout) {
    this.timeout = timeout;
    return this;
  }

  double seconds() {
    return timeout.toMillis() / 1000.0;
  }

  /** host:port for a client's bootstrap.servers. */
  public String bootstrapServers() {
    return node.bootstrap();
  }

  public String controlUrl() {
    return node.url();
  }

  public boolean isRunning() {
    return node.runs();
  }

  /** Whether it is a process of this JVM, which may be killed and started again. */
  public boolean isProcess() {
    return node.isProcess();
  }

  public long pid() {
    return node.pid();
  }

  /** SIGKILL. */
  public void kill() {
    node.requireProcess();
    node.kill();
  }

  /** Starts it again with the same data at the same address; it is stopped first if it runs. */
  public void restart() {
    node.requireProcess();
    node.stop();
    node.start();
  }

  /** Waits until the broker has ended, as after a crash that was asked for. */
  public void awaitEnd() {
    node.awaitEnd(timeout);
  }

  @Override
  public void close() {
    node.close();
  }

  // -- requests

  /** Asks the control interface; the path is what follows /control. */
  public Map<String, Object> get(String path) {
    return node.send("GET", path, null);
  }

  public Map<String, Object> post(String path, Map<String, ?> body) {
    return node.send("POST", path, body);
  }

  public Map<String, Object> delete(String path) {
    return node.send("DELETE", path, null);
  }

  Map<String, Object> post(String path, Body body, boolean waits) {
    Map<String, Object> fields = body == null ? new LinkedHashMap<>() : body.fields();
    if (waits) {
      fields.putIfAbsent("timeout", seconds());
    }
    return post(path, fields);
  }

  static String segment(String name) {
    return URLEncoder.encode(name, StandardCharsets.UTF_8).replace("+", "%20");
  }

  // -- what is in it

  public Topic topic(String name, int partitions) {
    return topic(name, partitions, Map.of());
  }

  /** Makes a topic unless it exists. */
  public Topic topic(String name, int partitions, Map<String, ?> configs) {
    post("/topics", Map.of("topic", name, "partitions", partitions, "configs", configs));
    return new Topic(this, name);
  }

  /** A group of any kind: classic, consumer, share, streams. It need not exist yet. */
  public Group group(String id) {
    return new Group(this, id);
  }

  public Transaction transaction(String id) {
    return new Transaction(this, id);
  }

  /** Waits until each record of source has led to exactly one committed record of sink, by their keys. */
  public void expectExactlyOnce(String source, String sink) {
    post("/exactly-once", Map.of("source", source, "sink", sink, "timeout", seconds()));
  }

  /** Notes what there is, for {@link #reset}. */
  public Map<String, ?> mark() {
    return get("/mark");
  }

  /** Deletes what is not in the mark, removes faults, and resets the clock. */
  public void reset(Map<String, ?> mark) {
    post("/reset", mark);
  }

  /** Topics, groups, open transactions, the last requests and warnings. */
  public String report() {
    return report(0);
  }

  String report(int since) {
    if (!isRunning()) {
      return "the broker does not run; its log ends with\n" + node.lastWords();
    }
    return (String) get("/report?text=true&since=" + since).get("text");
  }

  int journalMark() {
    return ((Number) get("/journal?limit=0").get("mark")).intValue();
  }

  /** Why a consumer of this group gets nothing, and what to do. */
  public String explain(String group) {
    return (String) get("/explain?text=true&group=" + segment(group)).get("text");
  }

  // -- the schema registry

  /** Where it is; it listens from now on. */
  public String registryUrl() {
    return node.registryUrl();
  }

  /** Registers a schema, and returns its id: of values the subject is TOPIC-value. */
  public int registerSchema(String subject, SchemaSpec spec) {
    return ((Number) post("/registry/subjects/" + segment(subject), spec, false).get("id")).intValue();
  }

  /** Does something to the calls of the schema registry's clients. */
  public Fault registryFault(RegistryFaultSpec spec) {
    return set("/registry/faults", spec);
  }

  // -- faults

  /** Does something to the requests that match. */
  public Fault fault(FaultSpec spec) {
    return set("/faults", spec);
  }

  /** Lets nothing pass on connections, and leaves them open. */
  public Fault stall(Connections which) {
    return set("/stall", which);
  }

  public Fault throttle(Connections which) {
    return set("/throttle", which);
  }

  /** Resets each new connection. */
  public Fault refuseConnections() {
    return set("/refuse_connections", null);
  }

  /** Resets connections. */
  public void disconnect(Connections which) {
    post("/disconnect", which, false);
  }

  /** Ends the broker as a power failure does; {@link #awaitEnd} and {@link #restart} follow. */
  public void crash(CrashSpec spec) {
    node.requireProcess();
    post("/crash", spec, false);
  }

  private Fault set(String path, Body body) {
    return new Fault(this, (String) post(path, body, false).get("id"));
  }

  // -- time

  /** Moves the broker's clock, and returns when all that was due has run. */
  public void advance(Duration by) {
    post("/clock/advance", Map.of("seconds", by.toMillis() / 1000.0));
  }

  public void freeze() {
    post("/clock/freeze", Map.of());
  }

  public void resume() {
    post("/clock/resume", Map.of());
  }

  @SuppressWarnings("unchecked")
  static List<Map<String, Object>> list(Map<String, Object> answer, String name) {
    return (List<Map<String, Object>>) answer.get(name);
  }
}
