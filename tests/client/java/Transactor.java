import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactor BOOTSTRAP TOPIC ID OUTCOME...: a transaction for each OUTCOME, "commit" or "abort", of three records that
 * are flushed before its end.
 */
public class Transactor {
  public static void main(String[] args) throws Exception {
    Map<String, Object> conf = new HashMap<>();
    conf.put("bootstrap.servers", args[0]);
    conf.put("transactional.id", args[2]);
    try (var producer = new KafkaProducer<>(conf, new ByteArraySerializer(), new ByteArraySerializer())) {
      producer.initTransactions();
      for (int number = 3; number < args.length; number++) {
        producer.beginTransaction();
        for (int record = 0; record < 3; record++) {
          var value = args[number] + " " + (number - 3) + " " + record;
          producer.send(new ProducerRecord<>(args[1], 0, null, value.getBytes()));
        }
        producer.flush();
        if (args[number].equals("commit")) producer.commitTransaction();
        else producer.abortTransaction();
      }
    }
  }
}
