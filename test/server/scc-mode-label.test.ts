/** Whoever labels a namespace hears at once what the authors of pods will hear. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createStore } from '../../src/cluster/store.ts';
import type { AdmissionRequest, Decision } from '../../src/kube/admission.ts';
import type { Namespace } from '../../src/kube/types.ts';
import { DEFAULT_CONFIGURATION } from '../../src/policy/psa/configuration.ts';
import { createPodSecurity } from '../../src/policy/psa/configuration.ts';
import type { SccMode } from '../../src/policy/scc/mode.ts';
import { createMetrics } from '../../src/telemetry/metrics.ts';
import { createPsaWebhook } from '../../src/server/webhooks/psa.ts';
import { createWaitingRoom } from '../../src/server/waiting-room.ts';
import { namespaceRequest, plainPod, podRequest } from '../support/pod-security.ts';

const LABEL = 'portcullis.dev/scc';
const warningOn = (mode: string): string =>
  `label portcullis.dev/scc: unknown mode "${mode}", "enforce" applies; must be one of enforce, report, off`;

function namespace(labels: Readonly<Record<string, string>>): Namespace {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'ns', labels } };
}

function decide(request: AdmissionRequest, mode: SccMode, exemptNamespaces: readonly string[]): Decision {
  const store = createStore();
  store.put('Namespace', namespace({ [LABEL]: 'enforced' }));
  const podSecurity = createPodSecurity(DEFAULT_CONFIGURATION);
  const webhook = createPsaWebhook({
    podSecurity: () => podSecurity,
    metrics: createMetrics({ version: '0.0.0' }).podSecurity,
    waitingRoom: createWaitingRoom(),
    scc: { mode, exemptNamespaces },
  });
  return webhook.decide(request, { store, now: () => 0 }) as Decision;
}

interface Case {
  readonly name: string;
  readonly request: AdmissionRequest;
  readonly mode?: SccMode;
  readonly exempt?: readonly string[];
  readonly warnings: readonly string[] | undefined;
}

const plain = namespace({});
const labelled = namespace({ [LABEL]: 'enforced' });

const CASES: readonly Case[] = [
  {
    name: 'a new namespace',
    request: namespaceRequest('CREATE', labelled, null),
    warnings: [warningOn('enforced')],
  },
  { name: 'a new label', request: namespaceRequest('UPDATE', labelled, plain), warnings: [warningOn('enforced')] },
  {
    name: 'a label no better than before',
    request: namespaceRequest('UPDATE', namespace({ [LABEL]: 'On' }), labelled),
    warnings: [warningOn('On')],
  },
  {
    name: 'an empty label',
    request: namespaceRequest('UPDATE', namespace({ [LABEL]: '' }), plain),
    warnings: [warningOn('')],
  },
  {
    name: 'where nothing is enforced otherwise',
    request: namespaceRequest('UPDATE', labelled, plain),
    mode: 'report',
    warnings: [warningOn('enforced')],
  },
  {
    name: 'beside what is said of the levels',
    request: namespaceRequest(
      'CREATE',
      namespace({ [LABEL]: 'enforced', 'pod-security.kubernetes.io/enforce': 'high' }),
      null,
    ),
    warnings: [warningOn('enforced')],
  },
  { name: 'said before', request: namespaceRequest('UPDATE', labelled, labelled), warnings: undefined },
  { name: 'put right', request: namespaceRequest('UPDATE', plain, labelled), warnings: undefined },
  {
    name: 'a mode',
    request: namespaceRequest('UPDATE', namespace({ [LABEL]: 'enforce' }), plain),
    warnings: undefined,
  },
  {
    name: 'SCCs are off',
    request: namespaceRequest('UPDATE', labelled, plain),
    mode: 'off',
    warnings: undefined,
  },
  {
    name: 'the namespace is exempt',
    request: namespaceRequest('UPDATE', labelled, plain),
    exempt: ['ns'],
    warnings: undefined,
  },
  {
    name: 'a subresource',
    request: namespaceRequest('UPDATE', labelled, plain, { subResource: 'status' }),
    warnings: undefined,
  },
  { name: 'a deletion', request: namespaceRequest('DELETE', null, labelled), warnings: undefined },
  { name: 'a pod', request: podRequest(plainPod()), warnings: undefined },
  {
    name: 'labels that are none',
    request: namespaceRequest('UPDATE', { ...plain, metadata: { name: 'ns', labels: { [LABEL]: 7 } } }, plain),
    warnings: undefined,
  },
];

suite('a mode of SCCs that is none, in the label of a namespace', () => {
  for (const { name, request, mode = 'enforce', exempt = [], warnings } of CASES) {
    test(name, () => {
      assert.deepEqual(decide(request, mode, exempt).warnings, warnings);
    });
  }

  test('warns and refuses nothing', () => {
    assert.equal(decide(namespaceRequest('UPDATE', labelled, plain), 'enforce', []).allowed, true);
  });
});
