import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/** Remote storage of Apache Kafka in a folder, in the same layout as `storage/tier/folder.py`. */
public class FolderStorage implements RemoteStorageManager {
    private static final Map<IndexType, String> SUFFIXES = Map.of(
        IndexType.OFFSET, ".index",
        IndexType.TIMESTAMP, ".timeindex",
        IndexType.PRODUCER_SNAPSHOT, ".snapshot",
        IndexType.LEADER_EPOCH, ".leader_epoch_checkpoint",
        IndexType.TRANSACTION, ".txnindex");

    private Path root;

    @Override
    public void configure(Map<String, ?> configs) {
        root = Path.of((String) configs.get("dir"), "kafka-tiered-storage");
        try {
            Files.createDirectories(root);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private Path path(RemoteLogSegmentMetadata segment, String suffix) {
        TopicIdPartition partition = segment.topicIdPartition();
        String folder = partition.topic() + "-" + partition.partition() + "-" + partition.topicId();
        String name = String.format("%020d-%s", segment.startOffset(), segment.remoteLogSegmentId().id());
        return root.resolve(folder).resolve(name + suffix);
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata segment, LogSegmentData data)
        throws RemoteStorageException {
        try {
            Files.createDirectories(path(segment, ".log").getParent());
            copy(data.offsetIndex(), path(segment, ".index"));
            copy(data.timeIndex(), path(segment, ".timeindex"));
            copy(data.producerSnapshotIndex(), path(segment, ".snapshot"));
            if (data.transactionIndex().isPresent()) {
                copy(data.transactionIndex().get(), path(segment, ".txnindex"));
            }
            ByteBuffer epochs = data.leaderEpochIndex().duplicate();
            byte[] bytes = new byte[epochs.remaining()];
            epochs.get(bytes);
            Files.write(path(segment, ".leader_epoch_checkpoint"), bytes);
            copy(data.logSegment(), path(segment, ".log"));
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
        return Optional.empty();
    }

    private static void copy(Path from, Path to) throws IOException {
        Files.copy(from, to, StandardCopyOption.REPLACE_EXISTING);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start) throws RemoteStorageException {
        return fetchLogSegment(segment, start, Integer.MAX_VALUE);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start, int end)
        throws RemoteStorageException {
        try {
            SeekableByteChannel channel = Files.newByteChannel(path(segment, ".log"));
            channel.position(start);
            return Channels.newInputStream(channel);
        } catch (NoSuchFileException error) {
            throw new RemoteResourceNotFoundException(error);
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType type) throws RemoteStorageException {
        try {
            return Files.newInputStream(path(segment, SUFFIXES.get(type)));
        } catch (NoSuchFileException error) {
            throw new RemoteResourceNotFoundException(error);
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) throws RemoteStorageException {
        try {
            Files.deleteIfExists(path(segment, ".log"));
            for (String suffix : SUFFIXES.values()) {
                Files.deleteIfExists(path(segment, suffix));
            }
        } catch (IOException error) {
            throw new RemoteStorageException(error);
        }
    }

    @Override
    public void close() {
    }
}
