import { BlockList, isIP } from 'node:net';

/**
 * Returns true if the `NO_PROXY` variable contains a server, so it is reached without a proxy. The rules are those of
 * Go, which kubectl uses. Unlike Node, Go accepts networks, and the name of a domain also matches its subdomains.
 * @see https://pkg.go.dev/golang.org/x/net/http/httpproxy#Config
 */
export function isWithoutProxy(server: string, noProxy: string): boolean {
  const { hostname, port, protocol } = new URL(server);
  const target = { host: withoutBrackets(hostname), port: port || (protocol === 'http:' ? '80' : '443') };
  return noProxy.split(',').some((item) => matches(item.trim().toLowerCase(), target));
}

function matches(item: string, { host, port }: { readonly host: string; readonly port: string }): boolean {
  if (item === '*') return true;
  const [, network = '', bits = ''] = /^([^/]*)\/(\d{1,3})$/.exec(item) ?? [];
  if (isIP(network) !== 0) return isInNetwork(host, network, Number(bits));
  // An IPv6 address without brackets has no port.
  const [, itemHost = item, itemPort = port] = isIP(item) === 0 ? (/^(.*):(\d+)$/.exec(item) ?? []) : [];
  const name = withoutBrackets(itemHost).replace(/^\*(?=\.)/, '');
  if (name === '' || itemPort !== port) return false;
  if (isIP(name) !== 0) return isInNetwork(host, name, isIP(name) === 4 ? 32 : 128);
  return name.startsWith('.') ? host.endsWith(name) : host === name || host.endsWith(`.${name}`);
}

function isInNetwork(host: string, network: string, bits: number): boolean {
  const family = isIP(network) === 4 ? 'ipv4' : 'ipv6';
  if (isIP(host) !== isIP(network) || bits > (family === 'ipv4' ? 32 : 128)) return false;
  const list = new BlockList();
  list.addSubnet(network, bits, family);
  return list.check(host, family);
}

/** Removes the brackets of an IPv6 address in a URL. */
export function withoutBrackets(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}
