import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions BOOTSTRAP TOPIC PRODUCERS COUNT RECORDS PARTITIONS PASSES: each producer ends COUNT transactions, PASSES
 * times over; prints how many a second all of them ended the last time, this process's CPU for each, in microseconds, and
 * how many producers failed and were replaced.
 */
public class Transactions {
  static final byte[] RECORD = "a small record".getBytes();
  static final AtomicInteger REPLACED = new AtomicInteger();

  public static void main(String[] args) throws Exception {
    int count = Integer.parseInt(args[3]);
    List<Callable<Void>> work = new ArrayList<>();
    for (int number = 0; number < Integer.parseInt(args[2]); number++) {
      var worker = new Worker(args[0], args[1], count, Integer.parseInt(args[4]), Integer.parseInt(args[5]));
      work.add(worker);
    }
    var pool = Executors.newFixedThreadPool(work.size(), Transactions::daemon);
    var machine = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    double took = 0, cpu = 0;
    for (int pass = 0; pass < Integer.parseInt(args[6]); pass++) {
      long began = System.nanoTime(), cpuBefore = machine.getProcessCpuTime();
      for (var done : pool.invokeAll(work)) done.get();
      took = System.nanoTime() - began;
      cpu = machine.getProcessCpuTime() - cpuBefore;
    }
    double ended = work.size() * count;
    System.out.println(ended / took * 1e9 + " " + cpu / ended / 1e3 + " " + REPLACED);
  }

  /** A failure of one ends the program. */
  static Thread daemon(Runnable work) {
    var thread = new Thread(work);
    thread.setDaemon(true);
    return thread;
  }

  static class Worker implements Callable<Void> {
    final Map<String, Object> conf;
    final String topic;
    final int count, records, partitions;
    KafkaProducer<byte[], byte[]> producer;

    Worker(String bootstrap, String topic, int count, int records, int partitions) {
      var id = UUID.randomUUID().toString();
      this.conf = Map.of("bootstrap.servers", bootstrap, "transactional.id", id);
      this.topic = topic;
      this.count = count;
      this.records = records;
      this.partitions = partitions;
      start();
    }

    void start() {
      producer = new KafkaProducer<>(conf, new ByteArraySerializer(), new ByteArraySerializer());
      producer.initTransactions();
    }

    @Override
    public Void call() {
      for (int ended = 0; ended < count; ) {
        try {
          transaction();
          ended++;
        } catch (KafkaException error) {
          // Now and then the client sends EndTxn without the Produce that belongs before it, with any broker.
          if (!(error instanceof InvalidTxnStateException || error.getCause() instanceof InvalidTxnStateException)) throw error;
          REPLACED.incrementAndGet();
          producer.close();
          start();
        }
      }
      return null;
    }

    void transaction() {
      producer.beginTransaction();
      for (int number = 0; number < records; number++) {
        producer.send(new ProducerRecord<>(topic, number % partitions, null, RECORD));
      }
      producer.commitTransaction();
    }
  }
}
