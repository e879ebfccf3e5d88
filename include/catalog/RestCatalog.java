import jakarta.servlet.DispatcherType;
import jakarta.servlet.Filter;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.FilterHolder;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;

/**
 * Iceberg's reference REST servlet over a JDBC catalog, for one machine: bound to one address, open only to a caller
 * with the bearer token. Everything comes from CATALOG_* variables, CATALOG_PROPERTY_JDBC_USER meaning jdbc.user and a
 * double underscore a dash; S3 keys are the AWS SDK's own variables, so that no table response can carry them.
 */
public class RestCatalog {
  private static final String PROPERTY = "CATALOG_PROPERTY_";
  private static final String REFUSAL =
      "{\"error\":{\"message\":\"Missing or wrong bearer token\",\"type\":\"NotAuthorizedException\",\"code\":401}}";

  public static void main(String[] args) throws Exception {
    Map<String, String> env = System.getenv();
    var catalog = CatalogUtil.loadCatalog("org.apache.iceberg.jdbc.JdbcCatalog", "lake", properties(env), null);
    var context = new ServletContextHandler();
    context.addFilter(
        new FilterHolder(guard("Bearer " + env.get("CATALOG_TOKEN"))), "/*", EnumSet.allOf(DispatcherType.class));
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    var server = new Server(new InetSocketAddress(env.get("CATALOG_HOST"), Integer.parseInt(env.get("CATALOG_PORT"))));
    server.setHandler(context);
    server.setStopAtShutdown(true);
    server.start();
    server.join();
  }

  private static Map<String, String> properties(Map<String, String> env) {
    Map<String, String> found = new HashMap<>();
    env.forEach((name, value) -> {
      if (name.startsWith(PROPERTY)) {
        found.put(name.substring(PROPERTY.length()).replace("__", "-").replace('_', '.').toLowerCase(), value);
      }
    });
    return found;
  }

  private static Filter guard(String expected) {
    byte[] wanted = expected.getBytes(StandardCharsets.UTF_8);
    return (request, response, chain) -> {
      String given = ((HttpServletRequest) request).getHeader("Authorization");
      // MessageDigest.isEqual takes the same time wherever the two differ.
      if (given != null && MessageDigest.isEqual(wanted, given.getBytes(StandardCharsets.UTF_8))) {
        chain.doFilter(request, response);
        return;
      }
      HttpServletResponse refusal = (HttpServletResponse) response;
      refusal.setStatus(401);
      refusal.setContentType("application/json");
      refusal.getWriter().write(REFUSAL);
    };
  }
}
