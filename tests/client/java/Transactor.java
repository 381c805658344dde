import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactor BOOTSTRAP TOPIC ID: a transaction for each line of the input, "commit" or "abort", of three records that are
 * flushed before its end; each is answered with a line once it has ended.
 */
public class Transactor {
  public static void main(String[] args) throws Exception {
    Map<String, Object> conf = new HashMap<>();
    conf.put("bootstrap.servers", args[0]);
    conf.put("transactional.id", args[2]);
    var input = new BufferedReader(new InputStreamReader(System.in));
    try (var producer = new KafkaProducer<>(conf, new ByteArraySerializer(), new ByteArraySerializer())) {
      producer.initTransactions();
      String outcome;
      for (int number = 0; (outcome = input.readLine()) != null; number++) {
        producer.beginTransaction();
        for (int record = 0; record < 3; record++) {
          var value = outcome + " " + number + " " + record;
          producer.send(new ProducerRecord<>(args[1], 0, null, value.getBytes()));
        }
        producer.flush();
        if (outcome.equals("commit")) producer.commitTransaction();
        else producer.abortTransaction();
        System.out.println(outcome);
        System.out.flush();
      }
    }
  }
}
