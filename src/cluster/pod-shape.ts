import { isObject } from '../kube/types.ts';
import type { Intern } from './intern.ts';
import { each, keep, members, shared, type Shape } from './shape.ts';

const ACTIONS = shared(members({ httpGet: members({ host: 'all' }), tcpSocket: members({ host: 'all' }) }));

const CONTAINER = members({
  name: 'all',
  image: 'all',
  securityContext: shared('all'),
  ports: shared(each(members({ hostPort: 'all' }))),
  livenessProbe: ACTIONS,
  readinessProbe: ACTIONS,
  startupProbe: ACTIONS,
  lifecycle: shared(members({ postStart: ACTIONS, preStop: ACTIONS })),
});

/** What decisions read of a pod spec: the Pod Security checks, SCCs, exemptions. */
const POD_SPEC: Shape = members({
  initContainers: each(CONTAINER),
  containers: each(CONTAINER),
  ephemeralContainers: each(CONTAINER),
  volumes: shared(each(shared('all'))),
  securityContext: shared('all'),
  serviceAccountName: 'all',
  hostNetwork: 'all',
  hostPID: 'all',
  hostIPC: 'all',
  hostUsers: 'all',
  os: members({ name: 'all' }),
  runtimeClassName: 'all',
});

/** The part of a pod spec that decisions read, held once for the pods of one controller; its parts for all pods. */
export function keepPodSpec(spec: unknown, intern: Intern): unknown {
  return intern(withoutSuffixes(keep(spec, POD_SPEC)), (kept) => keep(kept, POD_SPEC, intern) as object);
}

function withoutSuffixes(spec: unknown): unknown {
  if (!isObject(spec) || !Array.isArray(spec['volumes'])) return spec;
  return { ...spec, volumes: spec['volumes'].map(withoutSuffix) };
}

const TOKEN_VOLUME = 'kube-api-access';

/** The volume of the service account's token, which no check names, is called otherwise in each pod. */
function withoutSuffix(volume: unknown): unknown {
  if (!isObject(volume) || !isObject(volume['projected']) || Object.keys(volume).length !== 2) return volume;
  const { name } = volume;
  return typeof name === 'string' && name.startsWith(`${TOKEN_VOLUME}-`) ? { ...volume, name: TOKEN_VOLUME } : volume;
}
