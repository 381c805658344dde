// Replays records of the metadata log with Kafka's MetadataDelta; for tools/recorders/image_answers.py, which starts it.
// A line of standard input has the records of one delta, in base64, with blanks between; "new" begins with an empty image.
// The answer to a line is the new image, as the records of a snapshot; or "! ..." if a record was refused.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

public class KafkaImages {
    static final MetadataRecordSerde SERDE = MetadataRecordSerde.INSTANCE;
    static final ImageWriterOptions OPTIONS = new ImageWriterOptions.Builder(MetadataVersion.latestProduction())
        .setEligibleLeaderReplicasEnabled(true)
        .setLossHandler(loss -> { })
        .build();

    static String encoded(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(SERDE.recordSize(record, cache));
        SERDE.write(record, cache, new ByteBufferAccessor(buffer));
        return Base64.getEncoder().encodeToString(buffer.array());
    }

    static MetadataImage replayed(MetadataImage image, String[] records) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(image).build();
        for (String record : records) {
            byte[] bytes = Base64.getDecoder().decode(record);
            delta.replay(SERDE.read(new ByteBufferAccessor(ByteBuffer.wrap(bytes)), bytes.length).message());
        }
        return delta.apply(new MetadataProvenance(image.highestOffsetAndEpoch().offset() + records.length, 1, 0, true));
    }

    static void addFeature(List<String> records, String name, short level) {
        FeatureLevelRecord record = new FeatureLevelRecord().setName(name).setFeatureLevel(level);
        records.add(encoded(new ApiMessageAndVersion(record, (short) 0)));
    }

    static String written(MetadataImage image) {
        RecordListWriter writer = new RecordListWriter();
        image.write(writer, OPTIONS);
        List<String> records = new ArrayList<>();
        for (ApiMessageAndVersion record : writer.records()) {
            if (!(record.message() instanceof FeatureLevelRecord)) { // its level is that of the options
                records.add(encoded(record));
            }
        }
        image.features().metadataVersion().ifPresent(
            version -> addFeature(records, MetadataVersion.FEATURE_NAME, version.featureLevel()));
        image.features().finalizedVersions().forEach((name, level) -> addFeature(records, name, level));
        return String.join(" ", records);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        MetadataImage image = MetadataImage.EMPTY;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("new")) {
                image = MetadataImage.EMPTY;
                continue;
            }
            try {
                image = replayed(image, line.split(" "));
                System.out.println(written(image));
            } catch (RuntimeException error) {
                System.out.println("! " + error.toString().replace('\n', ' '));
            }
        }
    }
}
