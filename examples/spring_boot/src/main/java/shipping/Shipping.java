package shipping;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.stereotype.Service;

/** Takes orders, and writes a shipment for each, at least once. */
@Service
public class Shipping {
  static final String ORDERS = "orders";
  static final String SHIPMENTS = "shipments";

  record Order(String id, String item, int pieces) {}

  private final KafkaTemplate<String, String> template;
  private final ObjectMapper json = new ObjectMapper();

  Shipping(KafkaTemplate<String, String> template) {
    this.template = template;
  }

  /** Stores an order; it is on the broker's disk when this returns. */
  void place(Order order) throws Exception {
    template.send(ORDERS, order.id(), json.writeValueAsString(order)).get();
  }

  @KafkaListener(topics = ORDERS)
  void ship(ConsumerRecord<String, String> record) throws Exception {
    Order order = json.readValue(record.value(), Order.class);
    var shipment = Map.of("order", order.id(), "contents", order.pieces() + " " + order.item());
    template.send(SHIPMENTS, order.id(), json.writeValueAsString(shipment)).get();
  }
}
