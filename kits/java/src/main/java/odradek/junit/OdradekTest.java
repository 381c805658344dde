package odradek.junit;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * A test class with a Kafka broker: one for all classes of the run that ask for the same, clean for each test.
 *
 * <p>Fields and parameters of type {@link Odradek} get the broker; those of type {@link Topic} a topic of the test's own; a
 * {@code String} with {@link BootstrapServers} its address. Static fields have it in {@code @BeforeAll} already. What a test
 * makes is gone after it, faults are removed and the clock is reset; a test that fails has the broker's report.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@ExtendWith(OdradekExtension.class)
public @interface OdradekTest {
  /** Kafka's settings in server.properties: "num.partitions=3". */
  String[] settings() default {};

  /** test, dev or kafka. */
  String profile() default "test";

  /** How long waits last that have no time of their own, in seconds. */
  double timeout() default 5;
}
