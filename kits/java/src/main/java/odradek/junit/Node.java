package odradek.junit;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * The broker itself: a process, a container, or one that runs elsewhere. It ends with this JVM, however that ends: its
 * standard input is a pipe from here.
 */
final class Node {
  private static final String MISSING =
      ": install odradek where its command is on the path, or set ODRADEK (a command), BROKER_IMAGE or BROKER_CONTROL";

  private final HttpClient http = HttpClient.newHttpClient();
  private final Map<String, String> settings;
  private final String profile;
  private final Duration patience;
  private final String image = System.getenv("BROKER_IMAGE");
  private String url = System.getenv("BROKER_CONTROL");
  private String token = System.getenv("BROKER_TOKEN");
  private final boolean isElsewhere = url != null;
  private String listeners = "PLAINTEXT://127.0.0.1:0";
  private Map<String, ?> registry = Map.of();
  private String registryUrl;
  private Path folder;
  private Process process;
  private String bootstrap;

  Node(Map<String, String> settings, String profile, Duration patience) {
    this.settings = settings;
    this.profile = profile;
    this.patience = patience;
  }

  void start() {
    try {
      if (isElsewhere) {
        if (!settings.isEmpty()) {
          throw new IllegalStateException("BROKER_CONTROL names a broker that runs already, with settings of its own");
        }
      } else {
        folder = folder == null ? Files.createTempDirectory("odradek-") : folder;
        if (image != null) {
          startContainer();
        } else {
          startProcess();
        }
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error.getMessage() + MISSING, error);
    }
    var addresses = (Map<?, ?>) send("GET", "/status", null).get("listeners");
    bootstrap = (String) addresses.values().iterator().next();
  }

  private void startProcess() throws IOException {
    Path ready = folder.resolve("ready.json");
    Files.deleteIfExists(ready);
    var command = new ArrayList<>(words(System.getenv().getOrDefault("ODRADEK", "odradek")));
    command.addAll(List.of("serve", "--profile", profile, "--control", "127.0.0.1:0"));
    command.addAll(List.of("--set", "odradek.http.port=-1", "--set", "listeners=" + listeners));
    command.addAll(List.of("--set", "log.dirs=" + folder.resolve("data"), "--ready-file", ready.toString()));
    command.addAll(List.of("--exit-with-parent", "--remove-with-parent", folder.toString()));
    if (registryUrl != null) {
      command.addAll(List.of("--set", "schema.registry.listeners=" + registryUrl));
    }
    run(command);
    await(() -> isWhole(ready));
    Map<String, Object> told = JSON.std.mapFrom(ready.toFile());
    url = (String) told.get("control");
    listeners = (String) told.get("bound"); // the next start has the same port
  }

  private static boolean isWhole(Path file) {
    try {
      return Files.exists(file) && Files.readString(file).endsWith("\n");
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private void startContainer() throws IOException {
    token = token == null ? UUID.randomUUID().toString() : token;
    int kafka;
    int control;
    int schemas;
    try (var first = new ServerSocket(0);
        var second = new ServerSocket(0);
        var third = new ServerSocket(0)) {
      kafka = first.getLocalPort();
      control = second.getLocalPort();
      schemas = third.getLocalPort();
    }
    registry = Map.of("host", "0.0.0.0", "port", schemas);
    var command = new ArrayList<>(words(System.getenv().getOrDefault("CONTAINER_COMMAND", "docker")));
    command.addAll(List.of("run", "--rm", "--interactive"));
    for (int port : List.of(kafka, control, schemas)) {
      command.addAll(List.of("--publish", "127.0.0.1:" + port + ":" + port));
    }
    command.addAll(List.of("--env", "KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:" + kafka));
    command.addAll(List.of("--env", "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:" + kafka));
    command.addAll(List.of("--env", "ODRADEK_CONTROL=0.0.0.0:" + control, "--env", "ODRADEK_CONTROL_TOKEN=" + token));
    command.addAll(List.of(image, "serve", "--profile", profile, "--exit-with-parent"));
    run(command);
    url = "http://127.0.0.1:" + control;
    await(this::answers);
  }

  private boolean answers() {
    try {
      return send("GET", "/status", null) != null;
    } catch (UncheckedIOException error) {
      return false; // it does not listen yet
    }
  }

  private static List<String> words(String command) {
    return List.of(command.split(" "));
  }

  private void run(List<String> command) throws IOException {
    settings.forEach((name, value) -> command.addAll(List.of("--set", name + "=" + value)));
    var builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.redirectOutput(ProcessBuilder.Redirect.appendTo(log()));
    // A broker would read settings from these.
    builder.environment().keySet().removeIf(name -> name.matches("(KAFKA_|ODRADEK_).*|CLUSTER_ID"));
    process = builder.start();
  }

  private void await(BooleanSupplier serves) {
    long deadline = System.nanoTime() + patience.toNanos();
    while (!serves.getAsBoolean()) {
      if (!process.isAlive()) {
        throw new IllegalStateException("the broker did not start:\n" + lastWords());
      }
      if (System.nanoTime() > deadline) {
        kill();
        throw new IllegalStateException("the broker did not start within " + patience + ":\n" + lastWords());
      }
      try {
        Thread.sleep(5);
      } catch (InterruptedException error) {
        kill();
        Thread.currentThread().interrupt();
        throw new IllegalStateException("interrupted while the broker started", error);
      }
    }
  }

  String bootstrap() {
    return bootstrap;
  }

  /** Lets the schema registry listen, of a container at a port that is published; the next start has the same address. */
  String registryUrl() {
    registryUrl = (String) send("POST", "/registry", registry).get("url");
    return registryUrl;
  }

  String url() {
    return url;
  }

  long pid() {
    requireProcess();
    return process.pid();
  }

  boolean runs() {
    return isElsewhere || process != null && process.isAlive();
  }

  boolean isProcess() {
    return !isElsewhere && image == null;
  }

  void requireProcess() {
    if (!isProcess()) {
      throw new IllegalStateException("a broker of BROKER_CONTROL or BROKER_IMAGE cannot be killed or restarted from here");
    }
  }

  void awaitEnd(Duration timeout) {
    try {
      if (!process.waitFor(timeout.toMillis(), TimeUnit.MILLISECONDS)) {
        throw new AssertionError("the broker still runs after " + timeout);
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(error);
    }
  }

  void stop() {
    if (process == null || !process.isAlive()) {
      return;
    }
    process.toHandle().destroy(); // SIGTERM; Process.destroy closes its input too, after which it removes its data
    try {
      awaitEnd(Duration.ofSeconds(15));
    } catch (AssertionError error) {
      kill();
    }
  }

  void kill() {
    if (process != null) {
      process.destroyForcibly();
      awaitEnd(Duration.ofSeconds(15));
    }
  }

  void close() {
    stop();
    if (folder == null || !Files.exists(folder)) {
      return;
    }
    try (var files = Files.walk(folder)) {
      files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private File log() {
    return folder.resolve("broker.log").toFile();
  }

  String lastWords() {
    try {
      List<String> lines = Files.readAllLines(log().toPath());
      return String.join("\n", lines.subList(Math.max(0, lines.size() - 30), lines.size()));
    } catch (IOException error) {
      return "no log: " + error;
    }
  }

  /** Sends a request to the control interface. */
  Map<String, Object> send(String method, String path, Map<String, ?> body) {
    try {
      String text = body == null ? "" : JSON.std.asString(body);
      var request = HttpRequest.newBuilder(URI.create(url + "/control" + path));
      request.method(method, HttpRequest.BodyPublishers.ofString(text)).header("Content-Type", "application/json");
      if (token != null) {
        request.header("Authorization", "Bearer " + token);
      }
      var response = http.send(request.build(), BodyHandlers.ofString());
      Map<String, Object> answer = JSON.std.mapFrom(response.body());
      if (response.statusCode() >= 400) {
        throw new ControlException(method + " " + path + ": " + answer.get("error"), response.statusCode());
      }
      return answer;
    } catch (IOException error) {
      throw new UncheckedIOException("the control interface at " + url + " does not answer: " + error, error);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(error);
    }
  }
}
