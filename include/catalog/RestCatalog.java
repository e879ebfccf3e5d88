import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.rest.HTTPRequest;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.apache.iceberg.rest.RESTResponse;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/**
 * Iceberg's reference REST servlet over a JDBC catalog, for one machine: bound to one address, open only to the roles
 * whose bearer tokens it knows, each of which reads and writes the namespaces that are its own and gets the store keys
 * that are its own. Everything comes from CATALOG_* variables, CATALOG_PROPERTY_JDBC_USER meaning jdbc.user and a
 * double underscore a dash; the server's own S3 keys are the AWS SDK's variables, so that no response can carry them.
 */
public class RestCatalog {
  private static final String PROPERTY = "CATALOG_PROPERTY_";
  private static final String VENDED = "CATALOG_VENDED_";
  private static final String EVERYTHING = "*";
  /** Between the levels of a namespace: the reference server says a dot to its clients, the specification 1F. */
  private static final String LEVELS = "[.\u001F]";

  public static void main(String[] args) throws Exception {
    Map<String, String> env = System.getenv();
    var catalog = CatalogUtil.loadCatalog("org.apache.iceberg.jdbc.JdbcCatalog", "lake", named(env, PROPERTY), null);
    ensureNamespaces((SupportsNamespaces) catalog, words(env.get("CATALOG_NAMESPACES")));
    List<Role> roles = new ArrayList<>();
    for (String name : words(env.get("CATALOG_ROLES"))) {
      roles.add(Role.of(name, env, catalog));
    }
    var context = new ServletContextHandler();
    context.addServlet(new ServletHolder(new Door(roles)), "/*");
    var server = new Server(new InetSocketAddress(env.get("CATALOG_HOST"), Integer.parseInt(env.get("CATALOG_PORT"))));
    server.setHandler(context);
    server.setStopAtShutdown(true);
    server.start();
    server.join();
  }

  /** Variables that begin so, as Iceberg's property names. */
  private static Map<String, String> named(Map<String, String> env, String prefix) {
    Map<String, String> found = new HashMap<>();
    env.forEach((name, value) -> {
      if (name.startsWith(prefix)) {
        found.put(name.substring(prefix.length()).replace("__", "-").replace('_', '.').toLowerCase(), value);
      }
    });
    return found;
  }

  private static List<String> words(String text) {
    return text == null || text.isBlank() ? List.of() : List.of(text.trim().split("\\s*,\\s*"));
  }

  /** Roles may not make namespaces: those of the platform are there from the start. */
  private static void ensureNamespaces(SupportsNamespaces catalog, List<String> names) {
    for (String name : names) {
      try {
        catalog.createNamespace(Namespace.of(name));
      } catch (AlreadyExistsException known) {
        // as it should be
      }
    }
  }

  /** Whose a token is, and what its bearer may do. */
  private record Role(
      String name, byte[] bearer, Set<String> reads, Set<String> writes, boolean drops, RESTCatalogServlet servlet) {

    static Role of(String name, Map<String, String> env, Catalog catalog) {
      String prefix = "CATALOG_ROLE_" + name.toUpperCase() + "_";
      Map<String, String> vended = named(env, VENDED);
      vended.put("s3.access-key-id", env.get(prefix + "ACCESS_KEY"));
      vended.put("s3.secret-access-key", env.get(prefix + "SECRET_KEY"));
      boolean drops = Boolean.parseBoolean(env.get(prefix + "DROPS"));
      // Whoever may not delete need not try: writers leave what they give up to maintenance.
      vended.put("s3.delete-enabled", Boolean.toString(drops));
      return new Role(
          name,
          ("Bearer " + env.get(prefix + "TOKEN")).getBytes(StandardCharsets.UTF_8),
          Set.copyOf(words(env.get(prefix + "READS"))),
          Set.copyOf(words(env.get(prefix + "WRITES"))),
          drops,
          new RESTCatalogServlet(new Vending(catalog, vended)));
    }

    /** Why the request is refused; null if it is not. What is not known to be harmless is refused. */
    String refusal(HttpServletRequest request) {
      if (writes.contains(EVERYTHING)) {
        return null;
      }
      String method = request.getMethod();
      boolean looks = method.equals("GET") || method.equals("HEAD");
      // v1, namespaces, NAMESPACE, tables, TABLE, more: split as Iceberg's own routes do.
      String[] path = request.getRequestURI().substring(1).split("/");
      if (looks && path.length <= 3) {
        return null; // the configuration, and names of namespaces
      }
      if (path.length < 4 || !path[1].equals("namespaces")) {
        return "may not " + method + " /" + String.join("/", path);
      }
      // What is below a namespace is its own: Spark asks for a branch as for a table in the namespace bronze.orders, and
      // must hear that there is none.
      String[] levels = URLDecoder.decode(path[2], StandardCharsets.UTF_8).split(LEVELS, -1);
      String namespace = levels[0];
      String place = String.join(".", levels);
      String what = path.length > 4 ? place + "." + URLDecoder.decode(path[4], StandardCharsets.UTF_8) : place;
      // A scan is planned, and metrics are reported, by POST and DELETE below the table.
      if (looks || (path.length > 5 && Set.of("metrics", "plan", "tasks").contains(path[5]))) {
        return reads.contains(EVERYTHING) || reads.contains(namespace) ? null : "may not read " + what;
      }
      if (!writes.contains(namespace)) {
        return "may not write " + what;
      }
      // A metadata file that names others' files would have the server read, and remove, those.
      if (path[3].startsWith("register")) {
        return "may not register in " + what;
      }
      return method.equals("DELETE") && !drops ? "may not drop " + what : null;
    }
  }

  /** Lets every role to its own servlet, and nobody else to any. */
  private static class Door extends HttpServlet {
    private final transient List<Role> roles;

    Door(List<Role> roles) {
      this.roles = roles;
    }

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
      Role role = bearer(request.getHeader("Authorization"));
      String why = role == null ? null : role.refusal(request);
      if (role == null) {
        refuse(response, 401, "NotAuthorizedException", "Missing or wrong bearer token");
      } else if (why != null) {
        refuse(response, 403, "ForbiddenException", "role " + role.name() + " " + why);
      } else {
        enter(role, request, response);
      }
    }

    private static void enter(Role role, HttpServletRequest request, HttpServletResponse response)
        throws IOException {
      try {
        role.servlet().service(request, response);
      } catch (jakarta.servlet.ServletException failure) {
        throw new IOException(failure);
      }
    }

    private Role bearer(String given) {
      byte[] shown = (given == null ? "" : given).getBytes(StandardCharsets.UTF_8);
      Role found = null;
      for (Role role : roles) {
        // MessageDigest.isEqual takes the same time wherever the two differ.
        if (MessageDigest.isEqual(role.bearer(), shown)) {
          found = role;
        }
      }
      return found;
    }

    private static void refuse(HttpServletResponse response, int code, String type, String message)
        throws IOException {
      response.setStatus(code);
      response.setContentType("application/json");
      String quoted = message.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", "?");
      response
          .getWriter()
          .write("{\"error\":{\"message\":\"" + quoted + "\",\"type\":\"" + type + "\",\"code\":" + code + "}}");
    }
  }

  /**
   * Tells every client where the store is and gives it the keys of its role: with the configuration, and with a table
   * to those who ask for them, as DuckDB and PyIceberg do. Spark would open the store anew for each table.
   */
  private static class Vending extends RESTCatalogAdapter {
    private final Map<String, String> vended;

    Vending(Catalog catalog, Map<String, String> vended) {
      super(catalog);
      this.vended = vended;
    }

    @Override
    protected <T extends RESTResponse> T execute(
        HTTPRequest request, Class<T> type, Consumer<ErrorResponse> onError, Consumer<Map<String, String>> headers) {
      T answer = super.execute(request, type, onError, headers);
      if (answer instanceof ConfigResponse config) {
        var told = ConfigResponse.builder().withDefaults(config.defaults()).withOverrides(config.overrides());
        return type.cast(told.withEndpoints(config.endpoints()).withDefaults(vended).build());
      }
      if (answer instanceof LoadTableResponse table && asksForKeys(request)) {
        var told = LoadTableResponse.builder().withTableMetadata(table.tableMetadata()).addAllConfig(table.config());
        return type.cast(told.addAllConfig(vended).build());
      }
      return answer;
    }

    private static boolean asksForKeys(HTTPRequest request) {
      return request.headers().entries("X-Iceberg-Access-Delegation").stream()
          .anyMatch(header -> header.value().contains("vended-credentials"));
    }
  }
}
