import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Properties;

/**
 * What the peers in Java have in common: the line protocol and the transforms.
 *
 * <p>The arguments are properties: {@code servers=…}, {@code producer.<name>=…} and {@code consumer.<name>=…}. On
 * standard input a line {@code run <source> <sink> <workload> <id>} starts a run. The peer prints {@code ready} before it
 * accepts a run, {@code done} when the output of one is committed, and {@code failed <reason>} if it is not.
 */
abstract class Peer {
    final Properties arguments = new Properties();

    Peer(String[] arguments) {
        for (String argument : arguments) {
            int equals = argument.indexOf('=');
            this.arguments.setProperty(argument.substring(0, equals), argument.substring(equals + 1));
        }
    }

    /** Process all records of the source, and return what is left to close once the output is committed. */
    abstract AutoCloseable run(String source, String sink, String workload, String id) throws Exception;

    /** The arguments with this prefix, without it. */
    Properties withPrefix(String prefix) {
        Properties chosen = new Properties();
        for (String name : arguments.stringPropertyNames()) {
            if (name.startsWith(prefix)) {
                chosen.setProperty(name.substring(prefix.length()), arguments.getProperty(name));
            }
        }
        return chosen;
    }

    String argument(String name) {
        return arguments.getProperty(name);
    }

    /** Serve until the standard input ends, which it does with the process that started this one. */
    void serve() throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.out.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            try (AutoCloseable remaining = run(words[1], words[2], words[3], words[4])) {
                System.out.println("done");
            } catch (Exception failure) {
                failure.printStackTrace();
                System.out.println("failed " + failure.toString().replace('\n', ' '));
                System.exit(1);
            }
            System.out.println("ready");
        }
        System.exit(0);
    }

    static byte[] transform(String workload, byte[] value) {
        return workload.equals("integers") ? square(value) : upperCase(value);
    }

    private static byte[] square(byte[] value) {
        long number = Long.parseLong(new String(value, StandardCharsets.ISO_8859_1));
        return Long.toString(Math.multiplyExact(number, number)).getBytes(StandardCharsets.ISO_8859_1);
    }

    private static byte[] upperCase(byte[] value) {
        byte[] changed = value.clone();
        for (int index = 0; index < changed.length; index++) {
            if (changed[index] >= 'a' && changed[index] <= 'z') {
                changed[index] -= 'a' - 'A';
            }
        }
        return changed;
    }
}
