// Writes, as JSON, what Apache Kafka's own classes make of certificates' names (`ssl.principal.mapping.rules`), of messages
// of SASL mechanisms, and of signed tokens. Java 17 or newer runs it as it is:
// java -cp 'kafka/libs/*' tools/recorders/KafkaAnswers.java > tests/conformance/data/kafka_logins.json

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.sasl.SaslServer;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.authenticator.CredentialCache;
import org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer;
import org.apache.kafka.common.security.oauthbearer.internals.secured.BasicOAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;
import org.apache.kafka.common.security.plain.PlainAuthenticateCallback;
import org.apache.kafka.common.security.plain.internals.PlainSaslServer;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.ScramCredentialCallback;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramSaslServer;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.jose4j.jwk.JsonWebKeySet;
import org.jose4j.jwk.PublicJsonWebKey;
import org.jose4j.jws.JsonWebSignature;

public class KafkaAnswers {
    static final String NAME = "CN=Duke-9,OU=Service Users,O=Org,C=US";

    static Object principal(String rules, String name) {
        try {
            return SslPrincipalMapper.fromRules(rules).getName(name);
        } catch (java.io.IOException none) {
            return List.of("none");
        } catch (RuntimeException refused) {
            return List.of("refused");
        }
    }

    static List<Object> mappings() {
        List<Object> rows = new ArrayList<>();
        String[] rules = {
            "RULE:.*/x/", "RULE:^.*$/x/", "RULE:CN=(.*?),.*/$1/", "RULE:CN=(.*?)/u-$1/", "RULE:^CN=(.*?)/u-$1/",
            "RULE:CN=(.+),OU=(.+),O=(.+),C=(.+)/$4.$3.$2.$1/L", "RULE:CN=(.*),OU=.*/$1$1/U", "RULE:CN=([a-z&&[^s]]*).*/$1/",
            "RULE:CN=([a-zA-Z&&[^k]]*).*/$1/", "RULE:CN=([a-z[A-Z]]*).*/$1/", "RULE:CN=(\\p{Alpha}*).*/$1/",
            "RULE:CN=(\\p{javaUpperCase}).*/$1/", "RULE:CN=(?<who>[^,]*),.*/${who}/", "RULE:CN=(?<who>[^,]*),.*/$1/",
            "RULE:\\QCN=Duke-9\\E,.*/q/", "RULE:CN=([^,]*+),.*/$1/", "RULE:CN=(?>[^,]*),.*/a/", "RULE:CN=(\\w+)-(\\d),.*/$1$2/",
            "RULE:CN=(.*?)-(.),.*/$10/", "RULE:CN=(.*?)-(.),.*/$2$10/", "RULE:CN=([^,]*),.*/\\$1/", "RULE:CN=([^,]*),.*/$3/",
            "RULE:CN=([^,]*),.*/a$/", "RULE:CN=([^,]*),.*/a\\\\/", "RULE:CN=([^,]*),.*/$a/", "RULE:(?i)cn=([^,]*),.*/$1/",
            "RULE:CN=(?i)(DUKE).*/$1/", "RULE:CN=Duke\\h*.*/h/", "RULE:.*Service\\sUsers.*/s/", "RULE:(?x)CN= .*/x/",
            "RULE:CN=(.*),(OU=.*|X),O=(.*)(Z)?/[$4]/", "RULE:CN=.{1,}/n/", "RULE:CN=.{,9}.*/n/", "RULE:CN={.*/n/", "RULE:CN=.*\\z/z/",
            "RULE:CN=.*\\Z/z/", "RULE:(.)N=.*\\1.*/b/", "RULE:(.)N=.*/$0/", "RULE:C(?=N)N=.*/l/", "RULE:.*(?<=U)S/l/",
            "RULE:CN=[\\w-]*,.*/c/", "RULE:[]C]N=.*/c/", "RULE:[^]X]N=.*/c/", "RULE:[C\\-D]N=.*/c/", "RULE:CN=Duke\\-9,.*/c/",
            "RULE:(?P<a>C)N=.*/c/", "RULE:(?#c)CN=.*/c/", "RULE:(CN)=(?(1)D|x).*/c/", "RULE:\\x43N=.*/c/", "RULE:\\u0043N=.*/c/",
            "RULE:\\0103N=.*/c/", "RULE:CN=Duke.*\\R?/c/", "RULE:CN=Duke/x/,DEFAULT", "RULE:(?s)CN=.*/c/", "RULE:(?is)cn=.*/c/",
            "RULE:(?m)^CN=.*$/c/", "RULE:(?i:cn)=.*/c/", "RULE:(?-i)CN=.*/c/", "RULE:C\\EN=.*/c/", "RULE:[\\QC\\E]N=.*/c/",
            "RULE:(?:CN=(Duke)|X).*/<$1>/", "RULE:(?<a_b>C)N=.*/c/", "RULE:(?<a>C)N=.*\\k<a>=US/c/", "RULE:[[:alpha:]]N=.*/c/",
            "RULE:.*/a,b/", "RULE:CN=Duke.*,.*/x/L", "RULE:CN=Duke/a/b", " DEFAULT ", "RULE:CN=(.*?),.*/ $1 /", "default",
        };
        for (String rule : rules) rows.add(List.of(rule, NAME, principal(rule, NAME)));
        rows.add(List.of("RULE:CN=(.*)/$1/", "CN=a\nb", principal("RULE:CN=(.*)/$1/", "CN=a\nb")));
        rows.add(List.of("RULE:CN=(.*)/$1/", "CN=a\u2028b", principal("RULE:CN=(.*)/$1/", "CN=a\u2028b")));
        rows.add(List.of("RULE:CN=(\\w*)/$1/", "CN=\u00e9", principal("RULE:CN=(\\w*)/$1/", "CN=\u00e9")));
        rows.add(List.of("RULE:(?i)CN=(\u00c9)/$1/", "CN=\u00e9", principal("RULE:(?i)CN=(\u00c9)/$1/", "CN=\u00e9")));
        rows.add(List.of("RULE:CN=(.*)/$1/U", "CN=stra\u00dfe", principal("RULE:CN=(.*)/$1/U", "CN=stra\u00dfe")));
        rows.add(List.of("RULE:CN=(.*)/$1/L", "CN=\u0130", principal("RULE:CN=(.*)/$1/L", "CN=\u0130")));
        return rows;
    }

    /** "continues" and the answer, "done", "refused" (a SaslException or SaslAuthenticationException). */
    static String step(SaslServer server, byte[] message, List<byte[]> answers) {
        try {
            byte[] answer = server.evaluateResponse(message);
            answers.add(answer);
            return server.isComplete() ? "done" : "continues";
        } catch (javax.security.sasl.SaslException | SaslAuthenticationException refused) {
            return "refused";
        } catch (RuntimeException broken) {
            return "refused";
        }
    }

    static final String[][] SCRAM = {
        // first message; final message without its proof ({r}: the nonce), what follows the proof, what is proved if not that
        {"n,,n=alice,r=abc", "c=biws,r={r}", ""}, {"n,,n=alice,r=abc,x=1", "c=biws,r={r}", ""},
        {"n,,n=alice,r=abc", "c=biws,r={r},x=1", ""}, {"n,,n=alice,r=abc", "c=biws,r={r},ext=a,more=b c", ""},
        {"n,,n=alice,r=abc", "c=biws,r={r},x=", ""}, {"n,,n=alice,r=abc", "c=biws,r={r},1=x", ""},
        {"n,,n=alice,r=abc", "c=biws,r={r},x", ""}, {"n,,n=alice,r=abc", "c=biws,r={r}", ",x=1"},
        {"n,,n=alice,r=abc", "c=eSws,r={r}", ""}, {"n,,n=alice,r=abc", "c=,r={r}", ""}, {"n,,n=alice,r=abc", "c=b,r={r}", ""},
        {"n,,n=alice,r=abc", "c=biws,r={r}x", ""}, {"n,,n=alice,r=abc", "c=biws,r=abc", ""},
        {"n,,n=alice,r=abc", "r={r},c=biws", ""}, {"n,a=alice,n=alice,r=abc", "c=bixhPWFsaWNlLA==,r={r}", ""},
        {"n,a=alice,n=alice,r=abc", "c=biws,r={r}", ""}, {"n,a=bob,n=alice,r=abc", "c=biws,r={r}", ""},
        {"n,a=,n=alice,r=abc", "c=biws,r={r}", ""}, {"y,,n=alice,r=abc", "c=eSws,r={r}", ""},
        {"p=tls-unique,,n=alice,r=abc", "c=biws,r={r}", ""}, {"N,,n=alice,r=abc", "c=biws,r={r}", ""},
        {"n,,m=x,n=alice,r=abc", "c=biws,r={r}", ""}, {"n,,n=alice,m=x,r=abc", "c=biws,r={r}", ""},
        {"n,,n=,r=abc", "c=biws,r={r}", ""}, {"n,,n=alice,r=", "c=biws,r={r}", ""}, {"n,,n=alice,r=a b", "c=biws,r={r}", ""},
        {"n,,r=abc,n=alice", "c=biws,r={r}", ""}, {"n,,n=a=2Cb=3Dc,r=abc", "c=biws,r={r}", ""},
        {"n,,n=a=2cb,r=abc", "c=biws,r={r}", ""}, {"n,,n=a=b,r=abc", "c=biws,r={r}", ""}, {"n,,n=nobody,r=abc", "c=biws,r={r}", ""},
        {"n,,n=few,r=abc", "c=biws,r={r}", ""}, {"n,,n=alice,r=abc,tokenauth=true", "c=biws,r={r}", ""},
        {"n,,n=alice,r=abc,tokenauth=false", "c=biws,r={r}", ""}, {"n,,n=alice,r=abc,", "c=biws,r={r}", ""},
        {"n,,n=alice,r=abc,x=1,x=2", "c=biws,r={r}", ""},
        {"n,,n=\u00e9,r=abc", "c=biws,r={r}", ""}, {"n,,n=alice,r=abc\n", "c=biws,r={r}", ""}, {"", "c=biws,r={r}", ""},
        {"n,,n=alice,r=abc", "c=biws,r={r}", "="}, {"n,,n=alice,r=abc", "C=biws,r={r}", ""},
        {"n,,n=alice,r=abc", "c=biws,r={r},x=1", "", "c=biws,r={r}"}, {"n,,n=alice,r=abc", "c=eSws,r={r},x=1,y=2", "", "c=eSws,r={r}"},
        {"n,,n=alice,r=abc", "c=biws,r={r}", "", "c=biws,r={r},x=1"}, {"n,,n=alice,r=abc", "c=eSws,r={r}", "", "c=biws,r={r}"},
        {"n,,n=alice,r=abc", "c=bi ws,r={r}", ""}, {"n,,n=alice,r=abc", "c=bi-_,r={r}", ""},
    };

    static List<Object> scram() throws Exception {
        List<Object> rows = new ArrayList<>();
        ScramFormatter formatter = new ScramFormatter(ScramMechanism.SCRAM_SHA_256);
        ScramCredential credential = formatter.generateCredential("secret", 4096);
        ScramCredential few = formatter.generateCredential("secret", 4096);
        ScramCredential weak = new ScramCredential(few.salt(), few.storedKey(), few.serverKey(), 4095);
        AuthenticateCallbackHandler handler = new Handler() {
            @Override public void handle(Callback[] callbacks) {
                String name = ((javax.security.auth.callback.NameCallback) callbacks[0]).getDefaultName();
                if (callbacks[1] instanceof ScramCredentialCallback found && !name.equals("nobody"))
                    found.scramCredential(name.equals("few") ? weak : credential);
            }
        };
        for (String[] each : SCRAM) {
            SaslServer server = new ScramSaslServer(ScramMechanism.SCRAM_SHA_256, Map.of(), handler);
            List<byte[]> answers = new ArrayList<>();
            String first = step(server, each[0].getBytes(StandardCharsets.UTF_8), answers), last = null;
            if (first.equals("continues")) {
                String challenge = new String(answers.get(0), StandardCharsets.UTF_8);
                String nonce = challenge.substring(2, challenge.indexOf(','));
                String without = each[1].replace("{r}", nonce), proved = each[each.length > 3 ? 3 : 1].replace("{r}", nonce);
                String bare = each[0].substring(each[0].indexOf(',', each[0].indexOf(',') + 1) + 1);
                byte[] salted = formatter.saltedPassword("secret", credential.salt(), 4096);
                byte[] clientKey = formatter.clientKey(salted);
                byte[] signature = formatter.hmac(formatter.storedKey(clientKey),
                    (bare + "," + challenge + "," + proved).getBytes(StandardCharsets.UTF_8));
                byte[] proof = new byte[signature.length];
                for (int i = 0; i < proof.length; i++) proof[i] = (byte) (signature[i] ^ clientKey[i]);
                last = step(server, (without + ",p=" + Base64.getEncoder().encodeToString(proof) + each[2])
                    .getBytes(StandardCharsets.UTF_8), answers);
            }
            rows.add(java.util.Arrays.asList(each[0], each[1], each[2], each.length > 3 ? each[3] : each[1], first, last));
        }
        return rows;
    }

    abstract static class Handler implements AuthenticateCallbackHandler {
        @Override public void configure(Map<String, ?> configs, String mechanism, List<javax.security.auth.login.AppConfigurationEntry> entries) { }
        @Override public void close() { }
    }

    static List<Object> plain() {
        List<Object> rows = new ArrayList<>();
        AuthenticateCallbackHandler handler = new Handler() {
            @Override public void handle(Callback[] callbacks) {
                ((PlainAuthenticateCallback) callbacks[1]).authenticated(
                    new String(((PlainAuthenticateCallback) callbacks[1]).password()).equals("secret"));
            }
        };
        String[] messages = {"\0alice\0secret", "alice\0alice\0secret", "bob\0alice\0secret", "\0alice\0wrong", "\0\0secret",
            "\0alice\0", "alice\0secret", "\0alice\0secret\0", "\0alice\0secret\0x", "", "\0\0", " \0alice\0secret", "\0alice\0secret ",
            "ALICE\0alice\0secret", "\0alice\0secret\n"};
        for (String message : messages)
            rows.add(List.of(message, step(new PlainSaslServer(handler), message.getBytes(StandardCharsets.UTF_8), new ArrayList<>())));
        return rows;
    }

    static List<Object> bearer() {
        List<Object> rows = new ArrayList<>();
        AuthenticateCallbackHandler handler = new Handler() {
            @Override public void handle(Callback[] callbacks) throws javax.security.auth.callback.UnsupportedCallbackException {
                if (callbacks[0] instanceof OAuthBearerValidatorCallback found)
                    found.token(new BasicOAuthBearerToken(found.tokenValue(), java.util.Set.of(), Long.MAX_VALUE, "alice", null));
                else throw new javax.security.auth.callback.UnsupportedCallbackException(callbacks[0]);
            }
        };
        String s = "\u0001";
        String[] messages = {"n,," + s + "auth=Bearer a.b.c" + s + s, "n,a=alice," + s + "auth=Bearer a.b.c" + s + s,
            "n,a=bob," + s + "auth=Bearer a.b.c" + s + s, "n,a=," + s + "auth=Bearer a.b.c" + s + s, "y,," + s + "auth=Bearer a.b.c" + s + s,
            "p=x,," + s + "auth=Bearer a.b.c" + s + s, "n,," + s + "auth=bearer a.b.c" + s + s, "n,," + s + "auth=BEARER   a.b.c" + s + s,
            "n,," + s + "auth=Basic a.b.c" + s + s, "n,," + s + "AUTH=Bearer a.b.c" + s + s, "n,," + s + "auth=Bearer a.b.c" + s,
            "n,," + s + "auth=Bearer a.b.c" + s + "ext=one" + s + s, "n,," + s + "ext=one" + s + "auth=Bearer a.b.c" + s + s,
            "n,," + s + "auth=Bearer a.b.c" + s + "ext1=one" + s + s, "n,," + s + "auth=Bearer a.b.c" + s + "ext=" + s + s,
            "n,," + s + "auth=Bearer a.b.c" + s + "auth=Bearer d.e.f" + s + s, "n,," + s + "auth=Bearer a+b/c==" + s + s,
            "n,," + s + "auth=Bearer a~b" + s + s, "n,," + s + "auth=Bearer  a.b.c " + s + s, "n,," + s + s, "n,," + s, "",
            "n,," + s + "auth=Bearer " + s + s, "n,," + s + "auth=Bearer\ta.b.c" + s + s, "n,,auth=Bearer a.b.c" + s + s,
            "n,," + s + "auth=Bearer a.b.c" + s + "ext=a b\tc" + s + s, "n,," + s + "auth=Bearer a.b.c" + s + "ext=\u00e9" + s + s,
            "n,a=a=2Cb," + s + "auth=Bearer a.b.c" + s + s, "n,," + s + "host=h" + s + "port=9" + s + "auth=Bearer a.b.c" + s + s, s};
        for (String message : messages)
            rows.add(List.of(message, step(new OAuthBearerSaslServer(handler), message.getBytes(StandardCharsets.UTF_8), new ArrayList<>())));
        return rows;
    }

    static PublicJsonWebKey key(String kind, String id, String use, String algorithm) throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance(kind);
        generator.initialize(kind.equals("RSA") ? 2048 : 256);
        KeyPair pair = generator.generateKeyPair();
        PublicJsonWebKey key = PublicJsonWebKey.Factory.newPublicJwk(pair.getPublic());
        key.setPrivateKey(pair.getPrivate());
        key.setKeyId(id);
        key.setUse(use);
        key.setAlgorithm(algorithm);
        return key;
    }

    static String signed(PublicJsonWebKey key, String id, String algorithm, String claims) throws Exception {
        JsonWebSignature signature = new JsonWebSignature();
        signature.setPayload(claims);
        signature.setKey(key.getPrivateKey());
        if (id != null) signature.setKeyIdHeaderValue(id);
        signature.setAlgorithmHeaderValue(algorithm);
        return signature.getCompactSerialization();
    }

    /** Rows of [what, keys, now in seconds, token, skew, the name and the life time from now on, or refused]. */
    static List<Object> tokens() throws Exception {
        List<Object> rows = new ArrayList<>();
        PublicJsonWebKey one = key("RSA", "one", null, null), two = key("RSA", "two", null, null), ec = key("EC", "ec", null, null);
        PublicJsonWebKey signing = key("RSA", "s", "sig", "RS256"), encrypting = key("RSA", "e", "enc", null), nameless = key("RSA", null, null, null);
        List<PublicJsonWebKey> single = List.of(one), several = List.of(one, two), mixed = List.of(one, ec), both = List.of(encrypting, signing);
        row(rows, "valid", single, one, "one", "RS256", 600L, -10L, null, "\"alice\"", 30);
        row(rows, "no kid, one key", single, one, null, "RS256", 600L, -10L, null, "\"alice\"", 30);
        row(rows, "no kid, first of two keys", several, one, null, "RS256", 600L, -10L, null, "\"alice\"", 30);
        row(rows, "no kid, second of two keys", several, two, null, "RS256", 600L, -10L, null, "\"alice\"", 30);
        row(rows, "no kid, key of another type beside", mixed, ec, null, "ES256", 600L, -10L, null, "\"alice\"", 30);
        row(rows, "no kid, RSA beside EC", mixed, one, null, "RS256", 600L, -10L, null, "\"alice\"", 30);
        row(rows, "no kid, key without id", List.of(nameless), nameless, null, "RS256", 600L, -10L, null, "\"alice\"", 30);
        row(rows, "no kid, signing key beside an encrypting one", both, signing, null, "RS256", 600L, -10L, null, "\"alice\"", 30);
        row(rows, "encrypting key", both, encrypting, "e", "RS256", 600L, -10L, null, "\"alice\"", 30);
        row(rows, "unknown kid", single, one, "nope", "RS256", 600L, -10L, null, "\"alice\"", 30);
        row(rows, "kid of another key", several, two, "one", "RS256", 600L, -10L, null, "\"alice\"", 30);
        row(rows, "key without id, token with", List.of(nameless), nameless, "x", "RS256", 600L, -10L, null, "\"alice\"", 30);
        row(rows, "RS512 with a key for RS256", both, signing, "s", "RS512", 600L, -10L, null, "\"alice\"", 30);
        row(rows, "PS256", single, one, "one", "PS256", 600L, -10L, null, "\"alice\"", 30);
        for (int skew : new int[] {0, 30, 600})
            for (long end : new long[] {-700, -61, -31, -10, -1, 5, 60})
                row(rows, "ends at " + end + " with skew " + skew, single, one, "one", "RS256", end, -2000L, null, "\"alice\"", skew);
        for (long begin : new long[] {-10, 10, 40}) {
            row(rows, "not before " + begin, single, one, "one", "RS256", 600L, -10L, begin, "\"alice\"", 30);
            row(rows, "issued at " + begin, single, one, "one", "RS256", 600L, begin, null, "\"alice\"", 30);
        }
        row(rows, "issued after its end", single, one, "one", "RS256", 600L, 900L, null, "\"alice\"", 30);
        row(rows, "no end", single, one, "one", "RS256", null, -10L, null, "\"alice\"", 30);
        row(rows, "no time of issue", single, one, "one", "RS256", 600L, null, null, "\"alice\"", 30);
        for (String subject : new String[] {"\" alice \"", "\"\"", "\" \"", "7", "null", "[\"a\"]"})
            row(rows, "subject " + subject, single, one, "one", "RS256", 600L, -10L, null, subject, 30);
        return rows;
    }

    static void row(List<Object> rows, String what, List<PublicJsonWebKey> keys, PublicJsonWebKey key, String id,
                    String algorithm, Long end, Long issued, Long begin, String subject, int skew) throws Exception {
        long now = System.currentTimeMillis() / 1000;
        List<String> claims = new ArrayList<>();
        if (end != null) claims.add("\"exp\": " + (now + end));
        if (issued != null) claims.add("\"iat\": " + (now + issued));
        if (begin != null) claims.add("\"nbf\": " + (now + begin));
        claims.add("\"sub\": " + subject);
        String token = signed(key, id, algorithm, "{" + String.join(", ", claims) + "}");
        Path file = Files.createTempFile("keys", ".json");
        String listed = new JsonWebKeySet(new ArrayList<>(keys)).toJson();
        Files.writeString(file, listed);
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", file.toUri().toString());
        Map<String, Object> configs = new java.util.HashMap<>(org.apache.kafka.server.config.AbstractKafkaConfig.CONFIG_DEF.defaultValues());
        configs.put(SaslConfigs.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL, file.toUri().toString());
        configs.put(SaslConfigs.SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS, skew);
        configs.put("sasl.oauthbearer.allow.unverified.audience", true);
        configs.put("sasl.oauthbearer.allow.unverified.issuer", true);
        Object answer;
        try (BrokerJwtValidator validator = new BrokerJwtValidator()) {
            validator.configure(configs, "OAUTHBEARER", List.of(new javax.security.auth.login.AppConfigurationEntry("x",
                javax.security.auth.login.AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, Map.of())));
            OAuthBearerToken found = validator.validate(token);
            answer = List.of(found.principalName(), found.lifetimeMs() / 1000 - now);
        } catch (Exception refused) {
            answer = "refused";
            if (System.getenv("WHY") != null) System.err.println(what + ": " + refused + " <- " + refused.getCause());
        }
        rows.add(java.util.Arrays.asList(what, new ObjectMapper().readValue(listed, Map.class).get("keys"), now, token, skew, answer));
    }

    /** Rows of [header, claims (N+n: a time n seconds from now), options, now, token, the name and the life time or refusal]. */
    static List<Object> unsecured() throws Exception {
        List<Object> rows = new ArrayList<>();
        String none = "{\"alg\":\"none\"}", good = "{\"sub\":\"alice\",\"exp\":N+600,\"iat\":N-10}";
        String[][] cases = {
            {none, good}, {"{\"alg\":\"NONE\"}", good}, {"{}", good}, {"{\"alg\":\"RS256\"}", good}, {"{\"alg\":\"none\",\"typ\":\"JWT\"}", good},
            {none, "{\"sub\":\"alice\",\"exp\":N+600}"}, {none, "{\"sub\":\"alice\",\"iat\":N-10}"}, {none, "{\"exp\":N+600}"},
            {none, "{\"sub\":\"\",\"exp\":N+600}"}, {none, "{\"sub\":\" \",\"exp\":N+600}"}, {none, "{\"sub\":7,\"exp\":N+600}"},
            {none, "{\"sub\":\" alice \",\"exp\":N+600}"}, {none, "{\"sub\":\"alice\",\"exp\":N-10}"}, {none, "{\"sub\":\"alice\",\"exp\":\"N+600\"}"},
            {none, "{\"sub\":\"alice\",\"exp\":N+600.5}"}, {none, "{\"sub\":\"alice\",\"exp\":N+600,\"iat\":N+20}"},
            {none, "{\"sub\":\"alice\",\"exp\":N-5,\"iat\":N-5}", "unsecuredValidatorAllowableClockSkewMs=60000"},
            {none, "{\"sub\":\"alice\",\"exp\":N-5,\"iat\":N-60}", "unsecuredValidatorAllowableClockSkewMs=60000"},
            {none, "{\"sub\":\"alice\",\"exp\":N+90,\"iat\":N+20}", "unsecuredValidatorAllowableClockSkewMs=60000"},
            {none, "{\"sub\":\"alice\",\"exp\":N+600,\"iat\":\"x\"}"}, {none, "{\"sub\":\"alice\",\"exp\":N+600,\"nbf\":N+60}"},
            {none, "{\"who\":\"bob\",\"exp\":N+600}", "unsecuredValidatorPrincipalClaimName=who"},
            {none, "{\"sub\":\"alice\",\"exp\":N+600,\"scope\":\"a b\"}", "unsecuredValidatorRequiredScope=a b"},
            {none, "{\"sub\":\"alice\",\"exp\":N+600,\"scope\":[\"a\",\"b\"]}", "unsecuredValidatorRequiredScope=b"},
            {none, "{\"sub\":\"alice\",\"exp\":N+600,\"scope\":\"a\"}", "unsecuredValidatorRequiredScope=a b"},
            {none, "{\"sub\":\"alice\",\"exp\":N+600}", "unsecuredValidatorRequiredScope=a"},
            {none, "{\"sub\":\"alice\",\"exp\":N+600,\"scope\":7}"}, {none, "{\"sub\":\"alice\",\"exp\":N+600,\"scope\":7}", "unsecuredValidatorRequiredScope=a"},
            {none, "{\"sub\":\"alice\",\"exp\":null}"}, {none, "[]"}, {none, "{\"sub\":\"alice\",\"exp\":N+600"}, {"7", good},
        };
        for (String[] each : cases) {
            long now = System.currentTimeMillis() / 1000;
            StringBuilder claims = new StringBuilder();
            java.util.regex.Matcher times = java.util.regex.Pattern.compile("N([+-]\\d+)").matcher(each[1]);
            while (times.find()) times.appendReplacement(claims, String.valueOf(now + Long.parseLong(times.group(1))));
            times.appendTail(claims);
            Base64.Encoder encoder = Base64.getUrlEncoder().withoutPadding();
            String token = encoder.encodeToString(each[0].getBytes(StandardCharsets.UTF_8)) + "."
                + encoder.encodeToString(claims.toString().getBytes(StandardCharsets.UTF_8)) + ".";
            Map<String, String> options = new LinkedHashMap<>();
            if (each.length > 2) options.put(each[2].split("=")[0], each[2].split("=")[1]);
            OAuthBearerUnsecuredValidatorCallbackHandler handler = new OAuthBearerUnsecuredValidatorCallbackHandler();
            handler.configure(Map.of(), "OAUTHBEARER", List.of(new javax.security.auth.login.AppConfigurationEntry(
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
                javax.security.auth.login.AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options)));
            OAuthBearerValidatorCallback callback = new OAuthBearerValidatorCallback(token);
            try {
                handler.handle(new Callback[] {callback});
            } catch (RuntimeException broken) {
                callback.error("thrown", null, null);
            }
            Object answer = callback.token() == null ? List.of(callback.errorStatus())
                : List.of(callback.token().principalName(), callback.token().lifetimeMs() / 1000 - now);
            rows.add(List.of(each[0], each[1], options, now, token, answer));
        }
        return rows;
    }

    public static void main(String[] args) throws Exception {
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("about", "What Apache Kafka's classes answer; written by tools/recorders/KafkaAnswers.java.");
        all.put("mappings", mappings());
        all.put("scram", scram());
        all.put("plain", plain());
        all.put("bearer", bearer());
        all.put("tokens", tokens());
        all.put("unsecured", unsecured());
        System.out.println(new ObjectMapper().writeValueAsString(all));
    }
}
