package shipping;

import com.fasterxml.jackson.core.JsonProcessingException;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.util.backoff.FixedBackOff;

@SpringBootApplication
public class Application {
  public static void main(String[] arguments) {
    SpringApplication.run(Application.class, arguments);
  }

  /** Whatever fails is tried three times, then put into the topic orders-dlt; what is no JSON goes there at once. */
  @Bean
  DefaultErrorHandler errorHandler(KafkaTemplate<String, String> template) {
    var handler = new DefaultErrorHandler(new DeadLetterPublishingRecoverer(template), new FixedBackOff(100, 2));
    handler.addNotRetryableExceptions(JsonProcessingException.class);
    return handler;
  }
}
