import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { connect, createServer, type TLSSocket } from 'node:tls';
import { createAuthority, createServing } from '../../src/tls/issue.ts';
import { protocolSettings, TLS_CIPHER_SUITES } from '../../src/tls/protocol.ts';

const validity = { now: new Date(), days: 2 };
const pair = createServing(createAuthority(validity), { dnsNames: ['localhost'], ipAddresses: [] }, validity);

describe('protocolSettings', () => {
  test('defaults to TLS 1.2 with cipher suites that have forward secrecy', () => {
    assert.deepEqual(protocolSettings(), {
      minVersion: 'TLSv1.2',
      ciphers: [
        'TLS_AES_128_GCM_SHA256',
        'TLS_AES_256_GCM_SHA384',
        'TLS_CHACHA20_POLY1305_SHA256',
        'ECDHE-ECDSA-AES128-GCM-SHA256',
        'ECDHE-RSA-AES128-GCM-SHA256',
        'ECDHE-ECDSA-AES256-GCM-SHA384',
        'ECDHE-RSA-AES256-GCM-SHA384',
        'ECDHE-ECDSA-CHACHA20-POLY1305',
        'ECDHE-RSA-CHACHA20-POLY1305',
      ].join(':'),
    });
  });

  test('rejects unknown values', () => {
    assert.throws(() => protocolSettings('VersionTLS11'), {
      name: 'RangeError',
      message: '--tls-min-version: unknown value "VersionTLS11"; accepted values: VersionTLS12, VersionTLS13',
    });
    assert.throws(() => protocolSettings('VersionTLS12', ['TLS_RSA_WITH_RC4_128_SHA']), {
      name: 'RangeError',
      message: `--tls-cipher-suites: unknown value "TLS_RSA_WITH_RC4_128_SHA"; accepted values: ${TLS_CIPHER_SUITES.join(', ')}`,
    });
  });
});

describe('a server with the protocol settings', () => {
  const cases: readonly {
    name: string;
    minVersion?: string;
    suites?: readonly string[];
    client: { minVersion?: 'TLSv1.2'; maxVersion?: 'TLSv1.2'; ciphers?: string };
    expected: string;
  }[] = [
    { name: 'prefers TLS 1.3', client: {}, expected: 'TLSv1.3' },
    { name: 'accepts TLS 1.2', client: { maxVersion: 'TLSv1.2' }, expected: 'TLSv1.2' },
    {
      name: 'rejects TLS 1.2 with VersionTLS13',
      minVersion: 'VersionTLS13',
      client: { maxVersion: 'TLSv1.2' },
      expected: 'rejected',
    },
    {
      name: 'accepts TLS 1.3 with only TLS 1.2 cipher suites',
      suites: ['TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384'],
      client: {},
      expected: 'TLSv1.3',
    },
    {
      name: 'accepts a cipher suite that is configured',
      suites: ['TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384'],
      client: { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES256-GCM-SHA384' },
      expected: 'TLSv1.2',
    },
    {
      name: 'rejects a cipher suite that is not configured',
      suites: ['TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384'],
      client: { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-GCM-SHA256' },
      expected: 'rejected',
    },
    {
      name: 'rejects TLS 1.2 with only TLS 1.3 cipher suites',
      suites: ['TLS_AES_128_GCM_SHA256'],
      client: { maxVersion: 'TLSv1.2' },
      expected: 'rejected',
    },
  ];
  for (const { name, minVersion, suites, client, expected } of cases) {
    test(name, async (t) => {
      const server = createServer({ ...pair, ...protocolSettings(minVersion, suites) });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      t.after(() => server.close());
      const { port } = server.address() as AddressInfo;
      const socket: TLSSocket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ...client });
      const protocol = await Promise.race([
        once(socket, 'secureConnect').then(() => socket.getProtocol()),
        once(socket, 'close').then(() => 'rejected'),
      ]).catch(() => 'rejected');
      socket.destroy();
      assert.equal(protocol, expected);
    });
  }

  test('supports the name of every cipher suite', () => {
    for (const suite of TLS_CIPHER_SUITES) createServer({ ...pair, ...protocolSettings('VersionTLS12', [suite]) });
  });
});
