import { each, keep, members, type Shape } from './shape.ts';
import { isObject } from '../../kube/types.ts';

const ACTIONS = members({ httpGet: members({ host: 'all' }), tcpSocket: members({ host: 'all' }) });

const CONTAINER = members({
  name: 'all',
  image: 'all',
  securityContext: 'all',
  ports: each(members({ hostPort: 'all' })),
  livenessProbe: ACTIONS,
  readinessProbe: ACTIONS,
  startupProbe: ACTIONS,
  lifecycle: members({ postStart: ACTIONS, preStop: ACTIONS }),
});

/** What decisions read of a pod spec: the Pod Security checks, SCCs, exemptions. */
const POD_SPEC: Shape = members({
  initContainers: each(CONTAINER),
  containers: each(CONTAINER),
  ephemeralContainers: each(CONTAINER),
  volumes: 'all',
  securityContext: 'all',
  serviceAccountName: 'all',
  hostNetwork: 'all',
  hostPID: 'all',
  hostIPC: 'all',
  hostUsers: 'all',
  os: members({ name: 'all' }),
  runtimeClassName: 'all',
});

/** The part of a pod spec that decisions read; equal for the pods of one controller. */
export function keepPodSpec(spec: unknown): unknown {
  const kept = keep(spec, POD_SPEC);
  if (!isObject(kept) || !Array.isArray(kept['volumes'])) return kept;
  return { ...kept, volumes: kept['volumes'].map(withoutSuffix) };
}

const TOKEN_VOLUME = 'kube-api-access';

/** The volume of the service account's token, which no check names, is called otherwise in each pod. */
function withoutSuffix(volume: unknown): unknown {
  if (!isObject(volume) || !isObject(volume['projected']) || Object.keys(volume).length !== 2) return volume;
  const { name } = volume;
  return typeof name === 'string' && name.startsWith(`${TOKEN_VOLUME}-`) ? { ...volume, name: TOKEN_VOLUME } : volume;
}
