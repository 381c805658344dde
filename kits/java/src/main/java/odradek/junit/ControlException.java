package odradek.junit;

/** The broker refused something, or a wait was in vain: an assertion that failed, with a sentence that says why. */
public final class ControlException extends AssertionError {
  private static final long serialVersionUID = 1;
  private final int status;

  ControlException(String message, int status) {
    super(message);
    this.status = status;
  }

  /** The status of the HTTP answer: 408 after a wait in vain. */
  public int status() {
    return status;
  }
}
