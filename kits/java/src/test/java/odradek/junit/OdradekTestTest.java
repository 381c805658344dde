package odradek.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.platform.testkit.engine.EngineTestKit;

/** How tests of a service look, and that each finds the broker clean. */
@OdradekTest(timeout = 30)
@TestMethodOrder(MethodOrderer.MethodName.class)
class OdradekTestTest {
  private static Odradek shared;
  private static long pid;

  private Odradek odradek;
  private Topic orders;
  @BootstrapServers private String address;

  @BeforeAll
  static void isThereForAll() {
    assertTrue(shared.isRunning());
    pid = shared.isProcess() ? shared.pid() : 0;
  }

  private KafkaProducer<String, String> producer() {
    Map<String, Object> config = Map.of("bootstrap.servers", address, "enable.idempotence", true);
    return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
  }

  @Test
  void aLostReplyStoresOneOrder() throws Exception {
    Fault lost =
        odradek.fault(new FaultSpec().api("Produce").topic(orders.name()).phase("before_reply").disconnect(true).count(1));
    try (var producer = producer()) {
      producer.send(new ProducerRecord<>(orders.name(), "7", "{\"id\": 7}")).get();
    }
    lost.await(1);
    TopicRecord found = orders.expect(new Expected().key("7").json(Map.of("id", 7)));
    assertEquals("7", found.keyText());
    assertEquals(7, found.json().get("id"));
    assertEquals(1, orders.records().size());
  }

  @Test
  void bNothingOfItIsLeft(Odradek odradek, Topic own) {
    List<?> topics = (List<?>) odradek.get("/topics").get("topics");
    assertEquals(2, topics.size(), () -> topics.toString()); // the field's, and the parameter's
    assertEquals(List.of(), odradek.get("/faults").get("faults"));
    assertEquals(List.of(), own.records());
    odradek.advance(Duration.ofDays(1));
    odradek.group("shipping").configure(Map.of("share.auto.offset.reset", "earliest"));
    assertEquals("Dead", odradek.group("shipping").state());
  }

  @Test
  void cWhatIsWrittenIsRead() {
    orders.produce("8", Map.of("id", 8));
    orders.produce(null, new byte[] {(byte) 0xff});
    orders.produce("gone", null);
    assertEquals(8, orders.expect(Map.of("id", 8)).json().get("id"));
    assertEquals(1, orders.records().get(1).value().length);
    assertEquals("gone", orders.expect(new Expected().tombstone(true)).keyText());
    orders.truncate();
    assertEquals(List.of(), orders.records());
  }

  @Test
  void cARecordBySchemaComesOutDecoded() throws Exception {
    var schema = "{\"type\": \"record\", \"name\": \"Order\", \"fields\": [{\"name\": \"id\", \"type\": \"int\"}]}";
    int id = odradek.registerSchema(orders.name() + "-value", new SchemaSpec().schema(schema).type("AVRO"));
    orders.produce("7", Map.of("id", 7), id);
    TopicRecord found = orders.expect(Map.of("id", 7));
    assertEquals(List.of(7, 6), List.of(found.json().get("id"), found.value().length));
    try (Fault fault = odradek.registryFault(new RegistryFaultSpec().call("list").error(503))) {
      var asked = HttpRequest.newBuilder(URI.create(odradek.registryUrl() + "/subjects")).build();
      assertEquals(503, HttpClient.newHttpClient().send(asked, BodyHandlers.ofString()).statusCode());
      fault.await(1);
    }
  }

  @Test
  void dAWaitInVainSaysWhatIsNearest() {
    orders.produce(null, "order 7");
    var error = assertThrows(ControlException.class, () -> orders.expect(new Expected().value("order 8").timeout(0)));
    assertEquals(408, error.status());
    assertTrue(error.getMessage().contains("value: expected \"order 8\", is \"order 7\""), error.getMessage());
    var wrong = assertThrows(ControlException.class, () -> odradek.fault(new FaultSpec().api("Prodce").error(7)));
    assertTrue(wrong.getMessage().contains("such as Produce (0)"), wrong.getMessage());
    assertTrue(odradek.explain("nobody").startsWith("group nobody"));
  }

  @Test
  void eItIsKilledAndStartedAgain() throws Exception {
    org.junit.jupiter.api.Assumptions.assumeTrue(odradek.isProcess());
    var subjects = HttpRequest.newBuilder(URI.create(odradek.registryUrl() + "/subjects")).build();
    orders.produce(null, "kept");
    odradek.kill();
    assertFalse(odradek.isRunning());
    odradek.restart();
    assertEquals(address, odradek.bootstrapServers());
    assertEquals(200, HttpClient.newHttpClient().send(subjects, BodyHandlers.ofString()).statusCode());
    orders.expect("kept");
    odradek.crash(new CrashSpec().at("now").unsynced("kept"));
    odradek.awaitEnd();
  }

  /** Says its broker's process, and waits to be killed. */
  static final class Waits {
    public static void main(String[] none) throws Exception {
      System.out.println(Odradek.start().pid());
      Thread.sleep(60_000);
    }
  }

  @Test
  void hItEndsWithAJvmThatIsKilled() throws Exception {
    org.junit.jupiter.api.Assumptions.assumeTrue(odradek.isProcess());
    String program = System.getProperty("java.home") + "/bin/java";
    var command = List.of(program, "-cp", System.getProperty("java.class.path"), Waits.class.getName());
    Process jvm = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    var pid = Long.parseLong(jvm.inputReader().readLine());
    var broker = ProcessHandle.of(pid).orElseThrow();
    jvm.destroyForcibly();
    broker.onExit().get(30, java.util.concurrent.TimeUnit.SECONDS);
  }

  @Test
  void iARestartKeepsTheData() {
    org.junit.jupiter.api.Assumptions.assumeTrue(odradek.isProcess());
    orders.produce(null, "kept");
    odradek.restart();
    orders.expect("kept");
  }

  @Test
  void fWhatATestHasEndedIsThereAgain() {
    assertEquals(List.of(), orders.records());
  }

  @Nested
  class Nesting {
    @Test
    void hasTheFieldsOfItsClass() {
      assertNotNull(orders);
      orders.produce(null, "nested");
      orders.expect("nested");
    }
  }

  @Test
  void gAFailureHasTheBrokersReport() {
    var failures =
        EngineTestKit.engine("junit-jupiter")
            .configurationParameter("junit.jupiter.conditions.deactivate", "*")
            .selectors(selectClass(Failing.class))
            .execute()
            .testEvents()
            .failed();
    assertEquals(1, failures.count());
    Throwable error =
        failures.stream()
            .findFirst()
            .flatMap(event -> event.getPayload(org.junit.platform.engine.TestExecutionResult.class))
            .flatMap(org.junit.platform.engine.TestExecutionResult::getThrowable)
            .orElseThrow();
    String report = error.getSuppressed()[0].getMessage();
    assertTrue(report.startsWith("odradek:\ntopics (first offset..end):\n  failed: 0: 0..1"), report);
  }

  /** Run by the test above alone. */
  @OdradekTest
  @EnabledIfSystemProperty(named = "odradek.failing", matches = "true")
  static class Failing {
    @Test
    void fails(Odradek odradek) {
      Topic failed = odradek.topic("failed", 1);
      failed.produce(null, "order 7");
      failed.expect(new Expected().value("order 8").timeout(0));
    }
  }
}
