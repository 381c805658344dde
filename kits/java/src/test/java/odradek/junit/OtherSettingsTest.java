package odradek.junit;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.junit.jupiter.api.Test;

/** A class with settings of its own has a broker of its own. */
@OdradekTest(settings = "num.partitions=3")
class OtherSettingsTest {
  @Test
  void areAnotherBrokers(Odradek odradek) {
    assertEquals(3, ((Map<?, ?>) odradek.post("/topics", Map.of("topic", "t"))).get("partitions"));
  }
}
