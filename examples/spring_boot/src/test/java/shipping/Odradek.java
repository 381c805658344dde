package shipping;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A broker in a test's hands, over HTTP: a process `odradek serve` (the variable ODRADEK has another command), or, with
 * BROKER_CONTROL=http://HOST:PORT and perhaps BROKER_TOKEN, one that runs already.
 */
final class Odradek {
  private static final ObjectMapper JSON = new ObjectMapper();
  private final HttpClient http = HttpClient.newHttpClient();
  private final String token = System.getenv("BROKER_TOKEN");
  private String url = System.getenv("BROKER_CONTROL");
  private String listeners = "PLAINTEXT://127.0.0.1:0";
  private Path folder;
  private Process process;

  static Odradek start() throws Exception {
    var broker = new Odradek();
    if (broker.url == null) {
      broker.folder = Files.createTempDirectory("odradek-");
      broker.startProcess();
    }
    return broker;
  }

  /** Whether the broker is a process of this test, which may be started again. */
  boolean isOurs() {
    return folder != null;
  }

  /** Starts the process, the second time with the same data and port; it ends when this JVM does. */
  void startProcess() throws Exception {
    Path ready = folder.resolve("ready.json");
    Files.deleteIfExists(ready);
    var command = new ArrayList<>(List.of(System.getenv().getOrDefault("ODRADEK", "odradek").split(" ")));
    command.addAll(List.of("serve", "--profile", "test", "--control", "127.0.0.1:0"));
    command.addAll(List.of("--set", "odradek.http.port=-1", "--set", "listeners=" + listeners));
    command.addAll(List.of("--set", "log.dirs=" + folder.resolve("data"), "--ready-file", ready.toString()));
    command.addAll(List.of("--exit-with-parent", "--remove-with-parent", folder.toString()));
    var log = new File(folder.toFile(), "log");
    process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log).start();
    while (!Files.exists(ready) || !Files.readString(ready).endsWith("\n")) {
      if (!process.isAlive()) {
        throw new IllegalStateException("the broker did not start: " + Files.readString(log.toPath()));
      }
      Thread.sleep(10);
    }
    JsonNode started = JSON.readTree(ready.toFile());
    url = started.get("control").asText();
    listeners = started.get("bound").asText();
  }

  void awaitEnd(int seconds) throws Exception {
    if (!process.waitFor(seconds, TimeUnit.SECONDS)) {
      throw new AssertionError("the broker still runs");
    }
  }

  String bootstrapServers() throws Exception {
    return send("GET", "/status", null).get("listeners").elements().next().asText();
  }

  JsonNode get(String path) throws Exception {
    return send("GET", path, null);
  }

  JsonNode post(String path, Map<String, ?> body) throws Exception {
    return send("POST", path, body);
  }

  JsonNode delete(String path) throws Exception {
    return send("DELETE", path, null);
  }

  /** Sets a fault; `awaitHit` waits until it has struck. */
  String fault(Map<String, ?> fault) throws Exception {
    return post("/faults", fault).get("id").asText();
  }

  void awaitHit(String fault, int seconds) throws Exception {
    post("/faults/" + fault + "/wait", Map.of("timeout", seconds));
  }

  /** What the broker refuses, and a wait in vain, is an AssertionError. */
  private JsonNode send(String method, String path, Map<String, ?> body) throws Exception {
    String text = body == null ? "" : JSON.writeValueAsString(body);
    var request = HttpRequest.newBuilder(URI.create(url + "/control" + path));
    request.method(method, HttpRequest.BodyPublishers.ofString(text)).header("Content-Type", "application/json");
    if (token != null) {
      request.header("Authorization", "Bearer " + token);
    }
    var response = http.send(request.build(), BodyHandlers.ofString());
    JsonNode answer = JSON.readTree(response.body());
    if (response.statusCode() >= 400) {
      throw new AssertionError(method + " " + path + ": " + answer.get("error").asText());
    }
    return answer;
  }
}
