/*
 * One cryptographic library behind the protocol of `cargo xtask bench crypto-peers`: reads lines
 * "ALGORITHM DIRECTION MILLISECONDS", works on one message of 64 KiB again and again for that long,
 * and answers "BYTES NANOSECONDS CHECKSUM", the time being the CPU's, or "-" when the library does not have it. The checksum is
 * that of the message after its first encryption (or decryption) under a fixed key and IV, so that
 * whoever compares rates knows that the same was computed.
 *
 * Compiled for each library with -DPEER_...; nothing of it is part of the product.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LENGTH = 64 * 1024 };

static uint8_t data[LENGTH + 64] __attribute__((aligned(4096)));
static uint8_t key[64], iv[16], tag[16], ad[32];

/* Prepares an algorithm; 0 when the library has it. Then `work` does one message in place. */
static int prepare(const char *algorithm, int encrypt);
static void work(void);

#if defined(PEER_OPENSSL) || defined(PEER_AWS_LC)
#include <openssl/crypto.h>
#include <openssl/evp.h>
#ifdef PEER_AWS_LC
#include <openssl/aead.h>
static EVP_AEAD_CTX *aead;
#endif

static EVP_CIPHER_CTX *context;
static int is_aead, encrypting;

static const char *version(void) { return OpenSSL_version(OPENSSL_VERSION); }

static const EVP_CIPHER *cipher_of(const char *algorithm) {
    is_aead = 0;
    if (!strcmp(algorithm, "aes-xts")) return EVP_aes_256_xts();
    if (!strcmp(algorithm, "aes-ctr")) return EVP_aes_256_ctr();
    if (!strcmp(algorithm, "aes-cbc")) return EVP_aes_256_cbc();
    is_aead = 1;
    if (!strcmp(algorithm, "aes-gcm")) return EVP_aes_256_gcm();
#ifdef PEER_OPENSSL
    if (!strcmp(algorithm, "chacha20-poly1305")) return EVP_chacha20_poly1305();
#endif
    return NULL;
}

static int prepare(const char *algorithm, int encrypt) {
    encrypting = encrypt;
#ifdef PEER_AWS_LC
    const EVP_AEAD *kind = !strcmp(algorithm, "aes-gcm")             ? EVP_aead_aes_256_gcm()
                           : !strcmp(algorithm, "chacha20-poly1305") ? EVP_aead_chacha20_poly1305()
                                                                     : NULL;
    if (aead) EVP_AEAD_CTX_free(aead);
    aead = NULL;
    if (kind) {
        if (!encrypt) return -1;
        aead = EVP_AEAD_CTX_new(kind, key, 32, 16);
        return aead ? 0 : -1;
    }
#endif
    const EVP_CIPHER *cipher = cipher_of(algorithm);
    if (!cipher || (is_aead && !encrypt)) return -1;
    if (context) EVP_CIPHER_CTX_free(context);
    context = EVP_CIPHER_CTX_new();
    if (!EVP_CipherInit_ex(context, cipher, NULL, key, iv, encrypt)) return -1;
    EVP_CIPHER_CTX_set_padding(context, 0);
    return 0;
}

static void work(void) {
    int length = 0;
#ifdef PEER_AWS_LC
    if (aead) {
        size_t tag_length = 0;
        EVP_AEAD_CTX_seal_scatter(aead, data, tag, &tag_length, 16, iv, 12, data, LENGTH, NULL, 0, ad, 32);
        return;
    }
#endif
    EVP_CipherInit_ex(context, NULL, NULL, NULL, iv, encrypting);
    if (is_aead) EVP_CipherUpdate(context, NULL, &length, ad, 32);
    EVP_CipherUpdate(context, data, &length, data, LENGTH);
    if (is_aead) {
        EVP_CipherFinal_ex(context, data + LENGTH, &length);
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag);
    }
}

#elif defined(PEER_GCRYPT)
#include <gcrypt.h>

static gcry_cipher_hd_t handle;
static int is_aead, is_counter, encrypting;

static const char *version(void) { return gcry_check_version(NULL); }

static int prepare(const char *algorithm, int encrypt) {
    char cipher[32];
    const char *dash = strrchr(algorithm, '-');
    if (!strcmp(algorithm, "chacha20-poly1305")) {
        strcpy(cipher, "chacha20");
    } else {
        if (!dash || (size_t)(dash - algorithm) >= sizeof cipher) return -1;
        memcpy(cipher, algorithm, dash - algorithm);
        cipher[dash - algorithm] = 0;
    }
    const char *mode = dash + 1;
    int id = !strcmp(cipher, "aes")        ? GCRY_CIPHER_AES256
             : !strcmp(cipher, "serpent")  ? GCRY_CIPHER_SERPENT256
             : !strcmp(cipher, "twofish")  ? GCRY_CIPHER_TWOFISH
             : !strcmp(cipher, "camellia") ? GCRY_CIPHER_CAMELLIA256
             : !strcmp(cipher, "chacha20") ? GCRY_CIPHER_CHACHA20
                                           : 0;
    int how = !strcmp(mode, "xts")        ? GCRY_CIPHER_MODE_XTS
              : !strcmp(mode, "ctr")      ? GCRY_CIPHER_MODE_CTR
              : !strcmp(mode, "cbc")      ? GCRY_CIPHER_MODE_CBC
              : !strcmp(mode, "gcm")      ? GCRY_CIPHER_MODE_GCM
              : !strcmp(mode, "poly1305") ? GCRY_CIPHER_MODE_POLY1305
                                          : 0;
    is_aead = how == GCRY_CIPHER_MODE_GCM || how == GCRY_CIPHER_MODE_POLY1305;
    is_counter = how == GCRY_CIPHER_MODE_CTR;
    encrypting = encrypt;
    if (!id || !how || (is_aead && !encrypt)) return -1;
    if (handle) gcry_cipher_close(handle);
    handle = NULL;
    if (gcry_cipher_open(&handle, id, how, 0)) return -1;
    return gcry_cipher_setkey(handle, key, how == GCRY_CIPHER_MODE_XTS ? 64 : 32) ? -1 : 0;
}

static void work(void) {
    gcry_cipher_reset(handle);
    if (is_counter) gcry_cipher_setctr(handle, iv, 16);
    else gcry_cipher_setiv(handle, iv, is_aead ? 12 : 16);
    if (is_aead) gcry_cipher_authenticate(handle, ad, 32);
    if (encrypting) gcry_cipher_encrypt(handle, data, LENGTH, NULL, 0);
    else gcry_cipher_decrypt(handle, data, LENGTH, NULL, 0);
    if (is_aead) gcry_cipher_gettag(handle, tag, 16);
}

#elif defined(PEER_IPSEC_MB)
#include <intel-ipsec-mb.h>

static IMB_MGR *manager;
static struct gcm_key_data gcm_key;
static uint32_t encrypt_keys[60] __attribute__((aligned(16))), decrypt_keys[60] __attribute__((aligned(16)));
static int kind, encrypting;

static const char *version(void) { return imb_get_version_str(); }

static int prepare(const char *algorithm, int encrypt) {
    if (!manager) {
        IMB_ARCH arch;
        manager = alloc_mb_mgr(0);
        init_mb_mgr_auto(manager, &arch);
    }
    encrypting = encrypt;
    kind = !strcmp(algorithm, "aes-gcm")             ? 'g'
           : !strcmp(algorithm, "aes-ctr")           ? 'c'
           : !strcmp(algorithm, "aes-cbc")           ? 'b'
           : !strcmp(algorithm, "chacha20-poly1305") ? 'p'
                                                     : 0;
    if (!kind || ((kind == 'g' || kind == 'p') && !encrypt)) return -1;
    IMB_AES256_GCM_PRE(manager, key, &gcm_key);
    IMB_AES_KEYEXP_256(manager, key, encrypt_keys, decrypt_keys);
    return 0;
}

static void work(void) {
    if (kind == 'g') {
        struct gcm_context_data context;
        IMB_AES256_GCM_ENC(manager, &gcm_key, &context, data, data, LENGTH, iv, ad, 32, tag, 16);
        return;
    }
    if (kind == 'p') {
        struct chacha20_poly1305_context_data context;
        IMB_CHACHA20_POLY1305_INIT(manager, key, &context, iv, ad, 32);
        IMB_CHACHA20_POLY1305_ENC_UPDATE(manager, key, &context, data, data, LENGTH);
        IMB_CHACHA20_POLY1305_ENC_FINALIZE(manager, &context, tag, 16);
        return;
    }
    IMB_JOB *job = IMB_GET_NEXT_JOB(manager);
    job->cipher_mode = kind == 'c' ? IMB_CIPHER_CNTR : IMB_CIPHER_CBC;
    job->cipher_direction = encrypting ? IMB_DIR_ENCRYPT : IMB_DIR_DECRYPT;
    job->chain_order = encrypting ? IMB_ORDER_CIPHER_HASH : IMB_ORDER_HASH_CIPHER;
    job->hash_alg = IMB_AUTH_NULL;
    job->enc_keys = encrypt_keys;
    job->dec_keys = decrypt_keys;
    job->key_len_in_bytes = 32;
    job->iv = iv;
    job->iv_len_in_bytes = 16;
    job->src = job->dst = data;
    job->cipher_start_src_offset_in_bytes = 0;
    job->msg_len_to_cipher_in_bytes = LENGTH;
    job = IMB_SUBMIT_JOB(manager);
    if (!job) job = IMB_FLUSH_JOB(manager);
    if (!job || job->status != IMB_STATUS_COMPLETED) {
        fprintf(stderr, "ipsec-mb: a job failed\n");
        exit(1);
    }
}

#else
#error "no library named"
#endif

static uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* FNV-1a of 64 bits. */
static uint64_t checksum(void) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int at = 0; at < LENGTH; at++) hash = (hash ^ data[at]) * 0x100000001b3u;
    return hash;
}

int main(void) {
    char algorithm[64], direction[16];
    unsigned milliseconds;
    for (int at = 0; at < 64; at++) key[at] = (uint8_t)(at + 1);
    for (int at = 0; at < 32; at++) ad[at] = 7;
    printf("%s\n", version());
    fflush(stdout);
    while (scanf("%63s %15s %u", algorithm, direction, &milliseconds) == 3) {
        for (int at = 0; at < LENGTH; at++) data[at] = (uint8_t)(at * 31);
        if (prepare(algorithm, !strcmp(direction, "encrypt"))) {
            printf("-\n");
            fflush(stdout);
            continue;
        }
        work();
        uint64_t first = checksum(), bytes = 0, began = nanoseconds(), now;
        do {
            for (int round = 0; round < 4; round++) work();
            bytes += 4 * LENGTH;
            now = nanoseconds();
        } while (now - began < (uint64_t)milliseconds * 1000000u);
        printf("%llu %llu %016llx\n", (unsigned long long)bytes, (unsigned long long)(now - began),
               (unsigned long long)first);
        fflush(stdout);
    }
    return 0;
}
