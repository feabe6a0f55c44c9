const LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const SUBDOMAIN = `${LABEL}(\\.${LABEL})*`;
const IS_LABEL = new RegExp(`^${LABEL}$`);
const IS_SUBDOMAIN = new RegExp(`^${SUBDOMAIN}$`);

const LABEL_RULE =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_RULE =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";

/**
 * What is wrong with a name that must be a DNS label (of a namespace, for example), in the API server's words; empty if
 * nothing is.
 * @see https://github.com/kubernetes/apimachinery/blob/v0.37.0/pkg/api/validate/content/dns.go
 */
export function dnsLabelErrors(name: string): string[] {
  const errors = lengthErrors(name, 63);
  if (IS_LABEL.test(name)) return errors;
  const rule = `${LABEL_RULE} (e.g. 'my-name',  or '123-abc', regex used for validation is '${LABEL}')`;
  return [...errors, IS_SUBDOMAIN.test(name) ? 'must not contain dots' : rule];
}

/** What is wrong with a name that must be a DNS subdomain (of most objects), in the API server's words. */
export function dnsSubdomainErrors(name: string): string[] {
  const errors = lengthErrors(name, 253);
  if (IS_SUBDOMAIN.test(name)) return errors;
  return [...errors, `${SUBDOMAIN_RULE} (e.g. 'example.com', regex used for validation is '${SUBDOMAIN}')`];
}

function lengthErrors(name: string, maxBytes: number): string[] {
  return new TextEncoder().encode(name).length > maxBytes ? [`must be no more than ${maxBytes} bytes`] : [];
}
