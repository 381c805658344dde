package odradek.junit;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestExecutionExceptionHandler;
import org.junit.platform.commons.support.AnnotationSupport;
import org.junit.platform.commons.support.HierarchyTraversalMode;
import org.junit.platform.commons.support.ReflectionSupport;

/** What {@link OdradekTest} does. */
final class OdradekExtension
    implements BeforeAllCallback, BeforeEachCallback, AfterEachCallback, ParameterResolver, TestExecutionExceptionHandler {
  private static final Namespace NAMESPACE = Namespace.create(OdradekExtension.class);

  /** A broker of the whole run. */
  private record Shared(Odradek broker) implements Store.CloseableResource {
    @Override
    public void close() {
      broker.close();
    }
  }

  /** What there was when the test began. */
  private record Before(Map<String, ?> mark, int journal) {}

  @Override
  public void beforeAll(ExtensionContext context) {
    inject(context, context.getRequiredTestClass(), null);
  }

  @Override
  public void beforeEach(ExtensionContext context) {
    Odradek broker = broker(context);
    if (!broker.isRunning()) {
      broker.restart(); // a test has ended it, and what it had was removed
    }
    broker.timeout(Duration.ofMillis(Math.round(wanted(context).timeout() * 1000)));
    context.getStore(NAMESPACE).put(Before.class, new Before(broker.mark(), broker.journalMark()));
    for (Object instance : context.getRequiredTestInstances().getAllInstances()) {
      inject(context, instance.getClass(), instance);
    }
  }

  @Override
  public void afterEach(ExtensionContext context) {
    Before before = context.getStore(NAMESPACE).remove(Before.class, Before.class);
    if (before == null) {
      return; // the broker could not be started
    }
    Odradek broker = broker(context);
    if (!broker.isRunning()) {
      broker.restart();
    }
    broker.reset(before.mark());
  }

  @Override
  public void handleTestExecutionException(ExtensionContext context, Throwable error) throws Throwable {
    Before before = context.getStore(NAMESPACE).get(Before.class, Before.class);
    if (before != null && !(error instanceof org.opentest4j.TestAbortedException)) {
      error.addSuppressed(new Report(report(context, before)));
    }
    throw error;
  }

  private String report(ExtensionContext context, Before before) {
    try {
      return broker(context).report(before.journal());
    } catch (RuntimeException | ControlException failed) {
      return "the broker cannot say how it is: " + failed.getMessage();
    }
  }

  /** What the broker held when a test failed; it has no stack of its own. */
  private static final class Report extends Exception {
    private static final long serialVersionUID = 1;

    Report(String text) {
      super("odradek:\n" + text, null, false, false);
    }
  }

  // -- injection

  private void inject(ExtensionContext context, Class<?> type, Object instance) {
    var fields =
        ReflectionSupport.findFields(
            type,
            field -> Modifier.isStatic(field.getModifiers()) == (instance == null) && isOurs(field),
            HierarchyTraversalMode.TOP_DOWN);
    for (Field field : fields) {
      try {
        field.setAccessible(true);
        field.set(instance, value(context, field.getType()));
      } catch (IllegalAccessException error) {
        throw new IllegalStateException(field + " cannot be set: it is final", error);
      }
    }
  }

  private static boolean isOurs(Field field) {
    boolean isTopic = field.getType() == Topic.class && !Modifier.isStatic(field.getModifiers());
    return field.getType() == Odradek.class || isTopic || isAddress(field.getType(), field);
  }

  private static boolean isAddress(Class<?> type, java.lang.reflect.AnnotatedElement element) {
    return type == String.class && AnnotationSupport.isAnnotated(element, BootstrapServers.class);
  }

  @Override
  public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
    Class<?> type = parameter.getParameter().getType();
    boolean isTopic = type == Topic.class && context.getTestMethod().isPresent();
    return type == Odradek.class || isTopic || isAddress(type, parameter.getParameter());
  }

  @Override
  public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
    return value(context, parameter.getParameter().getType());
  }

  private Object value(ExtensionContext context, Class<?> type) {
    Odradek broker = broker(context);
    if (type == Odradek.class) {
      return broker;
    }
    if (type == String.class) {
      return broker.bootstrapServers();
    }
    return broker.topic(context.getRequiredTestMethod().getName() + "-" + UUID.randomUUID().toString().substring(0, 8), 1);
  }

  // -- brokers

  private static OdradekTest wanted(ExtensionContext context) {
    for (var at = context; at != null; at = at.getParent().orElse(null)) {
      var found = at.getTestClass().flatMap(type -> AnnotationSupport.findAnnotation(type, OdradekTest.class));
      if (found.isPresent()) {
        return found.get();
      }
    }
    throw new IllegalStateException("@OdradekTest is missing: it says which broker");
  }

  private static Odradek broker(ExtensionContext context) {
    OdradekTest wanted = wanted(context);
    Map<String, String> settings = new TreeMap<>();
    for (String line : wanted.settings()) {
      int equals = line.indexOf('=');
      if (equals < 1) {
        throw new IllegalArgumentException("@OdradekTest(settings = \"" + line + "\"): expected name=value");
      }
      settings.put(line.substring(0, equals).strip(), line.substring(equals + 1).strip());
    }
    var key = Arrays.asList(settings, wanted.profile());
    return context
        .getRoot()
        .getStore(NAMESPACE)
        .getOrComputeIfAbsent(key, none -> new Shared(Odradek.start(settings, wanted.profile())), Shared.class)
        .broker();
  }
}
