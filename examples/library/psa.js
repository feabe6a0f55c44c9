import { psaLevel } from 'portcullis/psa';

const scc = {
  metadata: { name: 'host-network' },
  allowHostNetwork: true,
  runAsUser: { type: 'MustRunAsNonRoot' },
  seLinuxContext: { type: 'MustRunAs' },
  fsGroup: { type: 'RunAsAny' },
  supplementalGroups: { type: 'RunAsAny' },
  volumes: ['emptyDir', 'secret'],
};
console.log(psaLevel(scc, { metadata: { name: 'shop' } }, { profile: 'accurate' }).level);
// privileged
