import java.io.ByteArrayInputStream;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** The JDK's own {@code HttpClient}, which offers HTTP/2 with every request; the base of Spring AI, LangChain4j and Ktor. */
class JdkClient {
    static final Pattern CONTENT = Pattern.compile("\"content\":\"((?:[^\"\\\\]|\\\\.)+)\"");

    static String body(String prompt, boolean stream) {
        return "{\"model\":\"tiny\",\"stream\":" + stream + ",\"messages\":[{\"role\":\"user\",\"content\":\"" + prompt + "\"}]}";
    }

    static List<String> contents(String text) {
        return CONTENT.matcher(text).results().map(found -> found.group(1)).collect(Collectors.toList());
    }

    static void trust(String authority) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        String text = Files.readString(Path.of(authority));
        var pem = new ByteArrayInputStream(text.substring(text.indexOf("-----BEGIN CERT")).getBytes());
        var certificate = CertificateFactory.getInstance("X.509").generateCertificate(pem);
        store.setCertificateEntry("cluster", certificate);
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        SSLContext.setDefault(context);
    }

    public static void main(String[] arguments) throws Exception {
        if (System.getenv("SSL_CERT_FILE") != null) trust(System.getenv("SSL_CERT_FILE"));
        var whole = Setup.CLIENT.send(Setup.chat(body("Say hello.", false)), BodyHandlers.ofString());
        System.out.println("{\"feature\":\"text\",\"seen\":\"" + contents(whole.body()).get(0) + "\"}");
        var lines = Setup.CLIENT.send(Setup.chat(body("Follow the script story.", true)), BodyHandlers.ofLines()).body();
        String pieces = lines.filter(line -> !line.isEmpty() && !line.equals("data: [DONE]"))
            .flatMap(line -> contents(line.substring("data: ".length())).stream())
            .map(piece -> "\"" + piece + "\"").collect(Collectors.joining(","));
        System.out.println("{\"feature\":\"stream\",\"seen\":[" + pieces + "]}");
        var wrong = Setup.CLIENT.send(Setup.chat("{\"model\":\"tiny\",\"messages\":[],\"temperature\":-1}"), BodyHandlers.ofString());
        System.out.println("{\"feature\":\"refused\",\"seen\":[" + wrong.statusCode() + "," + wrong.body().contains("error") + "]}");
    }
}
