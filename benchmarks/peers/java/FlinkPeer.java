import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.core.execution.CheckpointingMode;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Flink with an exactly-once Kafka sink: one cluster inside this process, and a bounded job for each run. */
final class FlinkPeer extends Peer {
    private final MiniCluster cluster;
    private final int parallelism = Integer.parseInt(argument("flink.parallelism"));
    private final long checkpointMs = Long.parseLong(argument("flink.checkpoint.ms"));

    private FlinkPeer(String[] arguments) throws Exception {
        super(arguments);
        cluster = new MiniCluster(new MiniClusterConfiguration.Builder()
                .setConfiguration(new Configuration())
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(parallelism)
                .withRandomPorts()
                .build());
        cluster.start();
    }

    public static void main(String[] arguments) throws Exception {
        new FlinkPeer(arguments).serve();
    }

    @Override
    AutoCloseable run(String source, String sink, String workload, String id) throws Exception {
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment(new Configuration());
        flink.setParallelism(parallelism);
        flink.getConfig().enableObjectReuse();
        flink.enableCheckpointing(checkpointMs, CheckpointingMode.EXACTLY_ONCE);
        flink.fromSource(source(source, id), WatermarkStrategy.noWatermarks(), "source")
                .map(pair -> Tuple2.of(pair.f0, transform(workload, pair.f1)))
                .returns(PAIR)
                .sinkTo(sink(sink, id));
        cluster.executeJobBlocking(flink.getStreamGraph().getJobGraph());
        return () -> {};
    }

    private KafkaSource<Tuple2<byte[], byte[]>> source(String topic, String id) {
        return KafkaSource.<Tuple2<byte[], byte[]>>builder()
                .setBootstrapServers(argument("servers"))
                .setTopics(topic)
                .setGroupId(id)
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setBounded(OffsetsInitializer.latest())
                .setDeserializer(new Reader())
                .setProperties(withPrefix("consumer."))
                .build();
    }

    private KafkaSink<Tuple2<byte[], byte[]>> sink(String topic, String id) {
        return KafkaSink.<Tuple2<byte[], byte[]>>builder()
                .setBootstrapServers(argument("servers"))
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(id)
                .setRecordSerializer(new Writer(topic))
                .setKafkaProducerConfig(withPrefix("producer."))
                .build();
    }

    private static final TypeInformation<Tuple2<byte[], byte[]>> PAIR =
            Types.TUPLE(Types.PRIMITIVE_ARRAY(Types.BYTE), Types.PRIMITIVE_ARRAY(Types.BYTE));

    private static final class Reader implements KafkaRecordDeserializationSchema<Tuple2<byte[], byte[]>> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Tuple2<byte[], byte[]>> out) {
            out.collect(Tuple2.of(record.key(), record.value()));
        }

        @Override
        public TypeInformation<Tuple2<byte[], byte[]>> getProducedType() {
            return PAIR;
        }
    }

    private static final class Writer implements KafkaRecordSerializationSchema<Tuple2<byte[], byte[]>> {
        private final String topic;

        private Writer(String topic) {
            this.topic = topic;
        }

        @Override
        public ProducerRecord<byte[], byte[]> serialize(
                Tuple2<byte[], byte[]> pair, KafkaSinkContext context, Long timestamp) {
            return new ProducerRecord<>(topic, null, pair.f0, pair.f1);
        }
    }
}
