import { assignScc } from 'portcullis/scc';

const scc = {
  metadata: { name: 'anyuid' },
  runAsUser: { type: 'RunAsAny' },
  seLinuxContext: { type: 'MustRunAs' },
  fsGroup: { type: 'RunAsAny' },
  supplementalGroups: { type: 'RunAsAny' },
  requiredDropCapabilities: ['MKNOD'],
  volumes: ['*'],
};
const ranges = { 'openshift.io/sa.scc.uid-range': '1000000000/10000', 'openshift.io/sa.scc.mcs': 's0:c1,c0' };
const decision = assignScc({
  operation: 'CREATE',
  object: { metadata: { name: 'web' }, spec: { containers: [{ name: 'web', image: 'nginx' }] } },
  namespace: { metadata: { name: 'shop', annotations: ranges } },
  userInfo: { username: 'alice', groups: ['system:authenticated'] },
  sccs: [scc],
  canUse: ({ username }, sccName) => username === 'alice' && sccName === 'anyuid',
});
console.log(decision.facts.scc, decision.object.spec.containers[0].securityContext.capabilities);
// anyuid { drop: [ 'MKNOD' ] }
