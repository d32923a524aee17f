use super::*;

/// Names between commas.
#[track_caller]
fn check(class: Class, names: &str) {
    for name in names.split(", ") {
        assert_eq!(classify(name), class, "{name}");
    }
}

#[test]
fn telling_names_in_every_spelling() {
    check(
        Class::Secret,
        "token, TOKEN, ToKeN, t_o_k_e_n, apiKey, api_key, API-KEY, api.key, api key, \
         x-api-key, X_API_KEY, APIKey, apikey, secret, password, PaSsWoRd, githubToken, \
         GITHUB_TOKEN, client_secret, clientSecret, DB_PASSWORD, PGPASSWORD, MYSQL_PWD, \
         refresh_token, accessToken, id_token, sessionToken, privateKey, ssh_private_key, \
         passwd, pwd, passphrase, credential, credentials, aws_secret_access_key, \
         connectionString, ConnectionStrings, dsn, SENTRY_DSN, bearer, jwt, secrets, \
         passwords, password1, password_2, new_password, password_confirmation, \
         passwordHash, token_value, secretKey, signing_key, x-vault-token, private-token, \
         OCP-Apim-Subscription-Key, authToken, authtoken, totp, PHPSESSID, GITHUB_PAT, \
         dbpass, smtp_pass, spring.datasource.password, code_verifier, \
         x-amz-security-token",
    );
    check(
        Class::Header,
        "Authorization, proxy-authorization, cookie, Set-Cookie, cookies, session_cookie",
    );
}

#[test]
fn names_that_only_speak_about_secrets() {
    check(
        Class::Plain,
        "token_count, tokenCount, secret_name, secretName, author, authority, key_id, \
         access_key_id, keyboard, keyword, key, keys, public_key, primary_key, sort_key, \
         tokenizer, tokenize, tokenization, secretary, passwordless, compass, bypass, \
         passed, passenger, password_policy, token_type, token_url, token_endpoint, \
         tokenExpiresAt, secretRef, secretKeyRef, password_length, token_limit, message, \
         id, hash, sha, name, value, pattern, path, authentication, oauth, cookie_policy, \
         conn, session_id, dsl, x, , monkey, turkey, ключ",
    );
}

#[test]
fn counts_and_containers() {
    check(
        Class::Counting,
        "max_tokens, tokens, prompt_tokens, maxTokens, input_token, pass, mail_pass",
    );
    check(Class::Weak, "auth, basic_auth, proxyAuth");
}

#[test]
fn a_long_name_is_read_too() {
    check(Class::Secret, &format!("{}_password", "x".repeat(500)));
    check(Class::Plain, &"x".repeat(500));
}

#[test]
fn extra_names_only_add_and_match_whole() {
    let names: Vec<String> = ["ssn", "Card-Number", "", "__"].map(String::from).to_vec();
    let extra = ExtraKeys::new(&names);
    assert_eq!(extra.classify("SSN"), Class::Secret);
    assert_eq!(extra.classify("cardNumber"), Class::Secret);
    assert_eq!(extra.classify("ssn_count"), Class::Plain);
    assert_eq!(extra.classify("_"), Class::Plain);
    assert_eq!(extra.classify("token"), Class::Secret);
}

#[test]
fn no_more_than_32_extra_names_are_used() {
    let names: Vec<String> = (0..40).map(|n| format!("field{n}")).collect();
    let extra = ExtraKeys::new(&names);
    assert_eq!(extra.classify("field31"), Class::Secret);
    assert_eq!(extra.classify("field32"), Class::Plain);
}
