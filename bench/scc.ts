import type { Store } from '../src/cluster/store.ts';
import { type AdmissionRequest, allow, type Decision } from '../src/kube/admission.ts';
import { createWaitingRoom } from '../src/server/waiting-room.ts';
import type { Webhook } from '../src/server/webhook.ts';
import { createMutatePods } from '../src/server/webhooks/pods.ts';
import { createSccRecorder } from '../src/telemetry/admission.ts';
import { createMetrics } from '../src/telemetry/metrics.ts';
import { fill, objectsOf, SMALL } from './cluster.ts';

const SETTINGS = {
  mode: 'enforce',
  exemptNamespaces: [],
  compatibility: 'portcullis',
  preferUserNamespaces: false,
} as const;

/** Creates the mutating webhook for pods, which assigns SCCs in all namespaces. */
export function mutateWebhook(): Webhook {
  return createMutatePods({
    harden: () => allow(),
    defaults: () => ({ mode: 'off', fields: [], namespaceSelector: {}, exemptNamespaces: [] }),
    settings: () => SETTINGS,
    waitingRoom: createWaitingRoom(),
    previewRanges: (namespace) => namespace,
    restoresStandardSccs: () => false,
    record: createSccRecorder(createMetrics({ version: 'bench' }).scc.decisions),
  });
}

export type Decide = (request: AdmissionRequest) => Promise<Decision & { readonly allowed: true }>;

/** Creates a function that decides on pods, which must be admitted. */
export function createDecide(store: Store): Decide {
  const webhook = mutateWebhook();
  const context = { store, now: () => performance.now() };
  return async (request) => {
    const decision = await webhook.decide(request, context);
    if (!decision.allowed) throw new Error('the pod was not admitted');
    return decision;
  };
}

/** Returns the review of the pod after the first pass. */
export async function admitted(body: string): Promise<string> {
  const review = JSON.parse(body) as { readonly request: AdmissionRequest };
  const { object } = await createDecide(small)(review.request);
  return JSON.stringify({ ...review, request: { ...review.request, object } });
}

const small = fill(objectsOf(SMALL));
