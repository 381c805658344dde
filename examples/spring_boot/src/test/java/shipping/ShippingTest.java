package shipping;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.test.context.DynamicPropertyRegistry;
import org.springframework.test.context.DynamicPropertySource;
import shipping.Shipping.Order;

/** How the service takes what happens to it: a lost reply, a rebalance, a poisoned order, a power failure. */
@SpringBootTest
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class ShippingTest {
  private static final int SECONDS = 60;
  private static Odradek odradek;

  @Autowired private Shipping shipping;

  @DynamicPropertySource
  static void broker(DynamicPropertyRegistry registry) throws Exception {
    odradek = Odradek.start();
    var synced = Map.of("flush.messages", 1); // an acknowledgement waits until the record is on the disk
    odradek.post("/topics", Map.of("topic", "orders", "partitions", 1, "configs", synced));
    odradek.post("/topics", Map.of("topic", "shipments", "partitions", 1));
    odradek.post("/topics", Map.of("topic", "orders-dlt", "partitions", 1));
    String address = odradek.bootstrapServers();
    registry.add("spring.kafka.bootstrap-servers", () -> address);
  }

  @AfterEach
  void noMoreFaults() throws Exception {
    odradek.delete("/faults");
  }

  @Test
  void anOrderIsShipped() throws Exception {
    shipping.place(new Order("one", "nuts", 3));
    odradek.post(
        "/topics/shipments/wait",
        Map.of("key", "one", "json", Map.of("contents", "3 nuts"), "timeout", SECONDS));
  }

  @Test
  void aLostReplyShipsOnce() throws Exception {
    String lost =
        odradek.fault(
            Map.of("api", "Produce", "topic", "shipments", "phase", "before_reply", "disconnect", true, "count", 1));
    shipping.place(new Order("lost", "nuts", 3));
    odradek.awaitHit(lost, SECONDS);
    shipping.place(new Order("next", "nuts", 3));
    awaitShipment("next");
    assertThat(shipmentsOf("lost")).hasSize(1);
  }

  @Test
  void aRebalanceInTheMiddleOfACommitLeavesNoOrderOut() throws Exception {
    String refused =
        odradek.fault(
            Map.of("api", "OffsetCommit", "group", "shipping", "error", "REBALANCE_IN_PROGRESS", "count", 1));
    shipping.place(new Order("during", "nuts", 3));
    odradek.awaitHit(refused, SECONDS);
    odradek.post("/groups/shipping/rebalance", null);
    shipping.place(new Order("after", "nuts", 3));
    awaitShipment("during");
    awaitShipment("after");
    odradek.post("/groups/shipping/wait", Map.of("state", "Stable", "lag", 0, "timeout", SECONDS));
  }

  @Test
  void aPoisonedOrderIsPutAsideAndTheNextOneIsShipped() throws Exception {
    var poisoned = Map.of("key", "poisoned", "value", "three nuts");
    odradek.post("/topics/orders/records", Map.of("records", List.of(poisoned)));
    shipping.place(new Order("healthy", "nuts", 3));
    awaitShipment("healthy");
    odradek.post("/topics/orders-dlt/wait", Map.of("key", "poisoned", "value", "three nuts", "timeout", SECONDS));
  }

  /** Last: the group is lost too, and a consumer that commits before it has joined anew gives up. */
  @Test
  @org.junit.jupiter.api.Order(Integer.MAX_VALUE)
  void anOrderThatWasPlacedSurvivesAPowerFailure() throws Exception {
    assumeTrue(odradek.isOurs(), "somebody else would have to start the broker again");
    odradek.post("/crash", Map.of("at", "before_fsync", "topic", "orders"));
    var placing =
        CompletableFuture.runAsync(
            () -> {
              try {
                shipping.place(new Order("safe", "nuts", 3));
              } catch (Exception error) {
                throw new IllegalStateException(error);
              }
            });
    odradek.awaitEnd(SECONDS);
    odradek.startProcess();
    placing.get(SECONDS, TimeUnit.SECONDS);
    awaitShipment("safe");
  }

  private void awaitShipment(String order) throws Exception {
    odradek.post("/topics/shipments/wait", Map.of("key", order, "timeout", SECONDS));
  }

  private List<String> shipmentsOf(String order) throws Exception {
    var records = odradek.get("/topics/shipments/records").get("records");
    return StreamSupport.stream(records.spliterator(), false)
        .map(record -> record.get("key").asText())
        .filter(order::equals)
        .toList();
  }
}
