-- Health of PortcullisConfigurations, PSAEnforcementConfigs and PodSecurityExceptions in Argo CD.
local health = { status = "Progressing", message = "Waiting for the leader to report the status" }
local status = obj.status
if status == nil or status.conditions == nil then
  return health
end
if status.observedGeneration ~= nil and status.observedGeneration ~= obj.metadata.generation then
  health.message = "Waiting for the leader to read the current generation"
  return health
end
-- These exceptions wait for an approval.
local unapproved = { NotApproved = true, SpecChanged = true, SelfApproved = true }
for _, condition in ipairs(status.conditions) do
  if condition.type == "Ready" then
    health.message = condition.message
    if condition.status == "True" then
      health.status = "Healthy"
    elseif unapproved[condition.reason] then
      health.status = "Suspended"
    end
  end
end
for _, condition in ipairs(status.conditions) do
  if condition.type == "Stalled" and condition.status == "True" then
    health.status = "Degraded"
    health.message = condition.message
  end
end
return health
