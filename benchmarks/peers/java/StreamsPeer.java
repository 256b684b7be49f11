import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/** Kafka Streams with the guarantee exactly_once_v2: a new application for each run, until all offsets are committed. */
final class StreamsPeer extends Peer {
    private static final long POLL_MS = 20;
    private static final long CLOSE_SECONDS = 60;

    private final Admin admin;

    private StreamsPeer(String[] arguments) throws Exception {
        super(arguments);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", argument("servers"));
        admin = Admin.create(properties);
    }

    public static void main(String[] arguments) throws Exception {
        new StreamsPeer(arguments).serve();
    }

    @Override
    AutoCloseable run(String source, String sink, String workload, String id) throws Exception {
        Map<TopicPartition, Long> ends = ends(source);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        KafkaStreams streams = new KafkaStreams(topology(source, sink, workload), properties(id));
        streams.setUncaughtExceptionHandler(raised -> {
            failure.set(raised);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        while (!committed(id).equals(ends)) {
            if (failure.get() != null) {
                throw new IllegalStateException(failure.get());
            }
            Thread.sleep(POLL_MS);
        }
        return () -> {
            // A thread that ends without leaving the group lets the others wait for its session timeout.
            if (!streams.close(CloseOptions.timeout(Duration.ofSeconds(CLOSE_SECONDS))
                    .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP))) {
                throw new IllegalStateException("The application did not end within " + CLOSE_SECONDS + " s");
            }
            streams.cleanUp();
        };
    }

    private static Topology topology(String source, String sink, String workload) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(source, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
                .mapValues(value -> transform(workload, value))
                .to(sink, Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        return builder.build();
    }

    private Properties properties(String id) {
        Properties properties = withPrefix("streams.");
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, id);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, argument("servers"));
        withPrefix("producer.").forEach((name, value) -> properties.put(StreamsConfig.producerPrefix((String) name), value));
        withPrefix("consumer.").forEach((name, value) -> properties.put(StreamsConfig.consumerPrefix((String) name), value));
        return properties;
    }

    private Map<TopicPartition, Long> ends(String topic) throws Exception {
        Map<TopicPartition, OffsetSpec> latest = new HashMap<>();
        admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions()
                .forEach(each -> latest.put(new TopicPartition(topic, each.partition()), OffsetSpec.latest()));
        Map<TopicPartition, Long> ends = new HashMap<>();
        admin.listOffsets(latest, new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).all().get()
                .forEach((partition, result) -> ends.put(partition, result.offset()));
        return ends;
    }

    /** The offsets that the group has committed. Those of an open transaction are not among them. */
    private Map<TopicPartition, Long> committed(String group) throws Exception {
        Map<TopicPartition, Long> offsets = new HashMap<>();
        Map<TopicPartition, OffsetAndMetadata> known =
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        known.forEach((partition, offset) -> {
            if (offset != null) {
                offsets.put(partition, offset.offset());
            }
        });
        return offsets;
    }
}
