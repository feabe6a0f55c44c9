import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { JsonObject } from '../../../src/kube/types.ts';
import { psaLevel } from '../../../src/policy/rollout/scc-level.ts';
import { evaluatePod, type Level } from '../../../src/policy/pss/index.ts';
import { STANDARD_SCCS } from '../../../src/policy/scc/standard.ts';
import { laxScc, namespaceWith } from '../../support/scc.ts';

const NAMESPACE = namespaceWith({ 'openshift.io/sa.scc.uid-range': '1000660000/10000' });
const NONE = namespaceWith({});

/** An SCC whose pods are restricted. */
const STRICT = {
  allowPrivilegeEscalation: false,
  requiredDropCapabilities: ['ALL'],
  seLinuxContext: { type: 'MustRunAs' },
  runAsUser: { type: 'MustRunAsNonRoot' },
  seccompProfiles: ['runtime/default'],
  volumes: ['secret'],
};

suite('the standard SCCs', () => {
  const levels: Readonly<Record<string, Level>> = {
    anyuid: 'baseline',
    hostaccess: 'privileged',
    'hostmount-anyuid': 'privileged',
    'hostmount-anyuid-v2': 'privileged',
    hostnetwork: 'privileged',
    'hostnetwork-v2': 'privileged',
    'nested-container': 'privileged',
    nonroot: 'baseline',
    'nonroot-v2': 'restricted',
    privileged: 'privileged',
    restricted: 'baseline',
    'restricted-v2': 'restricted',
    'restricted-v3': 'restricted',
  };
  for (const { scc } of STANDARD_SCCS) {
    const name = scc.metadata?.name ?? '';
    test(name, () => {
      for (const profile of ['upstream', 'accurate'] as const) {
        assert.deepEqual(psaLevel(scc, NAMESPACE, { profile }), { level: levels[name] });
      }
    });
  }
});

suite('one field at a time', () => {
  const cases: readonly (readonly [fields: JsonObject, upstream: Level, accurate: Level])[] = [
    [{}, 'restricted', 'restricted'],
    [{ allowHostDirVolumePlugin: true }, 'privileged', 'privileged'],
    [{ allowHostIPC: true }, 'privileged', 'privileged'],
    [{ allowHostPorts: true }, 'privileged', 'privileged'],
    [{ allowPrivilegedContainer: true }, 'privileged', 'privileged'],
    [{ allowPrivilegeEscalation: null }, 'baseline', 'baseline'],
    [{ allowedCapabilities: ['NET_BIND_SERVICE'] }, 'restricted', 'restricted'],
    [{ allowedCapabilities: ['CHOWN'] }, 'baseline', 'baseline'],
    [{ allowedCapabilities: ['NET_RAW'] }, 'privileged', 'privileged'],
    [{ requiredDropCapabilities: ['all'] }, 'baseline', 'baseline'],
    [{ defaultAddCapabilities: ['CHOWN'] }, 'restricted', 'baseline'],
    [{ defaultAddCapabilities: ['SYS_ADMIN'] }, 'restricted', 'privileged'],
    [{ allowedUnsafeSysctls: ['net.ipv4.tcp_rmem'] }, 'privileged', 'restricted'],
    [{ allowedUnsafeSysctls: ['net.*'] }, 'privileged', 'privileged'],
    [{ volumes: ['*'] }, 'privileged', 'privileged'],
    [{ volumes: ['nfs'] }, 'baseline', 'baseline'],
    [{ seLinuxContext: { type: 'RunAsAny' } }, 'privileged', 'privileged'],
    [
      { seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { type: 'container_engine_t' } } },
      'privileged',
      'restricted',
    ],
    [{ seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { user: 'u' } } }, 'privileged', 'privileged'],
    [{ seccompProfiles: [] }, 'baseline', 'baseline'],
    [{ seccompProfiles: ['localhost/a', 'docker/default'] }, 'restricted', 'restricted'],
    [{ seccompProfiles: ['*'] }, 'privileged', 'privileged'],
    [{ runAsUser: { type: 'MustRunAs' } }, 'baseline', 'baseline'],
    [{ runAsUser: { type: 'MustRunAs', uid: 1 } }, 'restricted', 'restricted'],
    [{ runAsUser: { type: 'MustRunAsRange', uidRangeMin: 0, uidRangeMax: 9 } }, 'baseline', 'baseline'],
    [{ runAsUser: { type: 'MustRunAsRange', uidRangeMin: 0 } }, 'restricted', 'restricted'],
    [{ runAsUser: { type: 'RunAsAny' } }, 'baseline', 'baseline'],
    [{ runAsUser: { type: 'RunAsAny' }, userNamespaceLevel: 'RequirePodLevel' }, 'baseline', 'restricted'],
  ];
  for (const [fields, upstream, accurate] of cases) {
    test(JSON.stringify(fields), () => {
      const scc = laxScc({ ...STRICT, ...fields });
      assert.deepEqual(psaLevel(scc, NAMESPACE, { profile: 'upstream' }), { level: upstream });
      assert.deepEqual(psaLevel(scc, NAMESPACE, { profile: 'accurate' }), { level: accurate });
    });
  }
});

suite('user namespaces that count change two parts of an SCC that requires them', () => {
  const engine = { type: 'MustRunAs', seLinuxOptions: { type: 'container_engine_t' } };
  const required = { userNamespaceLevel: 'RequirePodLevel' };
  const anybody = { type: 'RunAsAny' };
  const cases: readonly (readonly [fields: JsonObject, ignore: Level, aware: Level])[] = [
    [{ ...required, runAsUser: anybody }, 'baseline', 'restricted'],
    [{ ...required, runAsUser: { type: 'Maybe' } }, 'privileged', 'restricted'],
    [{ ...required, runAsUser: { type: 'MustRunAsRange', uidRangeMin: 0, uidRangeMax: 9 } }, 'baseline', 'restricted'],
    [{ ...required, seLinuxContext: engine }, 'privileged', 'restricted'],
    [
      { ...required, seLinuxContext: { type: 'MustRunAs', seLinuxOptions: { type: 'spc_t' } } },
      'privileged',
      'privileged',
    ],
    [{ ...required, seccompProfiles: ['*'] }, 'privileged', 'privileged'],
    [{ ...required, requiredDropCapabilities: [] }, 'baseline', 'baseline'],
    [{ ...required, allowedUnsafeSysctls: ['net.ipv4.tcp_rmem'] }, 'privileged', 'privileged'],
    [{ runAsUser: anybody }, 'baseline', 'baseline'],
    [{ userNamespaceLevel: 'AllowHostLevel', seLinuxContext: engine }, 'privileged', 'privileged'],
  ];
  for (const [fields, ignore, aware] of cases) {
    test(JSON.stringify(fields), () => {
      const scc = laxScc({ ...STRICT, ...fields });
      const levelWith = (userNamespaces: 'aware' | 'ignore') =>
        psaLevel(scc, NAMESPACE, { profile: 'upstream', userNamespaces }).level;
      assert.deepEqual([levelWith('ignore'), levelWith('aware')], [ignore, aware]);
    });
  }

  test('a namespace without a range does not matter to them', () => {
    const scc = laxScc({ ...STRICT, ...required, runAsUser: { type: 'MustRunAsRange' } });
    const level = psaLevel(scc, NONE, { profile: 'upstream', userNamespaces: 'aware' });
    assert.deepEqual(level, { level: 'restricted' });
  });

  test('the accurate profile can leave them out', () => {
    const scc = laxScc({ ...STRICT, ...required, runAsUser: anybody });
    const level = psaLevel(scc, NAMESPACE, { profile: 'accurate', userNamespaces: 'ignore' });
    assert.deepEqual(level, { level: 'baseline' });
  });
});

suite('what cannot be judged', () => {
  const range = { runAsUser: { type: 'MustRunAsRange' } };
  const missing = 'namespace "demo": unable to find annotation openshift.io/sa.scc.uid-range';
  const cases: readonly (readonly [fields: JsonObject, error: string])[] = [
    [range, missing],
    [{ ...range, volumes: ['hologram'] }, 'unknown volume type "hologram"'],
    [{ runAsUser: { type: 'Maybe' } }, 'unknown strategy "Maybe" for runAsUser'],
  ];
  for (const [fields, error] of cases) {
    test(error, () => {
      const scc = laxScc({ ...STRICT, ...fields });
      assert.deepEqual(psaLevel(scc, NONE, { profile: 'upstream' }), { level: 'privileged', error });
      assert.deepEqual(psaLevel(scc, NONE, { profile: 'accurate' }), { level: 'baseline' });
    });
  }

  test('a field of a wrong type', () => {
    const scc = laxScc({ ...STRICT, volumes: 'all' });
    for (const profile of ['upstream', 'accurate'] as const) {
      const error = 'volumes: Invalid value: "all": must be a list';
      assert.deepEqual(psaLevel(scc, NAMESPACE, { profile }), { level: 'privileged', error });
    }
  });
});

suite('the accurate profile knows what the newest standards know', () => {
  const isBaseline = (securityContext: JsonObject, container: JsonObject = {}): boolean => {
    const pod = { spec: { securityContext, containers: [{ name: 'a', securityContext: container }] } };
    return evaluatePod(pod, { level: 'baseline', version: 'latest' }).allowed;
  };
  const isPrivileged = (fields: JsonObject): boolean =>
    psaLevel(laxScc({ ...STRICT, ...fields }), NAMESPACE, { profile: 'accurate' }).level === 'privileged';

  const sysctls = [
    ...['kernel.shm_rmid_forced', 'kernel.msgmax', 'net.ipv4.ip_local_port_range', 'net.ipv4.tcp_syncookies'],
    ...['net.ipv4.ping_group_range', 'net.ipv4.ip_unprivileged_port_start', 'net.ipv4.ip_local_reserved_ports'],
    ...['net.ipv4.tcp_keepalive_time', 'net.ipv4.tcp_fin_timeout', 'net.ipv4.tcp_keepalive_intvl'],
    ...['net.ipv4.tcp_keepalive_probes', 'net.ipv4.tcp_rmem', 'net.ipv4.tcp_wmem', 'net.ipv4.tcp_mem'],
    ...['net.ipv4.tcp_slow_start_after_idle', 'net.ipv4.tcp_notsent_lowat', 'vm.swappiness'],
  ];
  for (const name of sysctls) {
    test(name, () =>
      assert.equal(isPrivileged({ allowedUnsafeSysctls: [name] }), !isBaseline({ sysctls: [{ name, value: '1' }] })),
    );
  }

  for (const type of ['container_t', 'container_init_t', 'container_kvm_t', 'container_engine_t', 'spc_t']) {
    test(type, () => {
      const seLinuxContext = { type: 'MustRunAs', seLinuxOptions: { type } };
      assert.equal(isPrivileged({ seLinuxContext }), !isBaseline({ seLinuxOptions: { type } }));
    });
  }

  const capabilities = [
    ...['AUDIT_WRITE', 'CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'MKNOD', 'NET_BIND_SERVICE', 'SETFCAP'],
    ...['SETGID', 'SETPCAP', 'SETUID', 'SYS_CHROOT', 'SYS_ADMIN', 'NET_RAW', 'ALL', '*'],
  ];
  for (const name of capabilities) {
    test(name, () =>
      assert.equal(isPrivileged({ allowedCapabilities: [name] }), !isBaseline({}, { capabilities: { add: [name] } })),
    );
  }
});
